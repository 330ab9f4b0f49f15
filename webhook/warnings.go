package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dra-steward/dra-steward/internal/text/natural"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

const (
	// maxWarnings is how many problems an answer warns about. kubectl prints each on a line.
	maxWarnings = 5
	// maxPlaces is how many places of a problem a warning names.
	maxPlaces = 2
)

// A problem is what one rule has found, in one or more places.
type problem struct {
	rule     string
	count    int
	messages []messagePlaces
}

// messagePlaces are the places of findings with the same message.
type messagePlaces struct {
	text   string
	places []string
}

// warnings returns a line for each rule that warns, with the first places.
func warnings(answer review.Answer) (lines []string) {
	problems := problemsOf(answer.Findings)
	for _, p := range problems[:min(len(problems), maxWarnings)] {
		lines = append(lines, p.String())
	}
	rest := 0
	var rules []string
	for _, p := range problems[len(lines):] {
		rest += p.count
		rules = append(rules, p.rule)
	}
	if rest > 0 {
		lines = append(lines, named(fmt.Sprintf("and %d more: \"dra-steward lint\" lists all", rest), rules...))
	}
	if answer.Effect != "" {
		lines = append(lines, named(answer.Effect, answer.EffectRule))
	}
	return lines
}

// problemsOf groups the warnings by rule and message, in the order of the rules.
func problemsOf(findings []review.Finding) (problems []problem) {
	at := map[string]int{}
	for _, f := range inOrder(findings) {
		if f.Severity != validate.Warning {
			continue
		}
		i, known := at[f.Rule]
		if !known {
			i = len(problems)
			at[f.Rule] = i
			problems = append(problems, problem{rule: f.Rule})
		}
		problems[i].add(f)
	}
	return problems
}

func (p *problem) add(f review.Finding) {
	if rest, is := unlisted(f); is {
		p.count += rest
		return
	}
	p.count++
	i := slices.IndexFunc(p.messages, func(m messagePlaces) bool { return m.text == f.Message })
	if i < 0 {
		if i = len(p.messages); i == maxPlaces {
			return // counted, and not named
		}
		p.messages = append(p.messages, messagePlaces{text: f.Message})
	}
	p.messages[i].places = append(p.messages[i].places, f.Path)
}

// unlisted is the number of a policy's messages that its limit has left out.
func unlisted(f review.Finding) (int, bool) {
	text, is := strings.CutPrefix(f.Message, "and ")
	text, ends := strings.CutSuffix(text, " more")
	if !is || !ends || f.Path != "" {
		return 0, false
	}
	rest, err := strconv.Atoi(text)
	return rest, err == nil
}

// String is such as "a, b and 3 more: message; c: message; and 2 more (dra-steward rule x)".
func (p problem) String() string {
	var text strings.Builder
	rest := p.count
	for i, m := range p.messages {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(m.String())
		rest -= len(m.places)
	}
	if rest > 0 {
		fmt.Fprintf(&text, "; and %d more", rest)
	}
	return named(text.String(), p.rule)
}

func (m messagePlaces) String() string {
	named := slices.DeleteFunc(slices.Clone(m.places[:min(len(m.places), maxPlaces)]), func(place string) bool { return place == "" })
	if len(named) == 0 {
		return m.text
	}
	return plural.List(named, maxPlaces, len(m.places)) + ": " + m.text
}

// inOrder returns the findings with those of each rule in the natural order of their places.
// The rules keep their order.
func inOrder(findings []review.Finding) []review.Finding {
	if len(findings) < 2 {
		return findings
	}
	first := make(map[string]int, len(findings))
	for i, f := range findings {
		if _, known := first[f.Rule]; !known {
			first[f.Rule] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(findings), func(a, b review.Finding) int {
		return cmp.Or(cmp.Compare(first[a.Rule], first[b.Rule]), natural.Compare(a.Path, b.Path))
	})
}
