package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/dra-steward/dra-steward/internal/text/natural"
)

// The fields of a violation.
var (
	messageKey = ast.StringTerm("message")
	hintKey    = ast.StringTerm("hint")
	belowKey   = ast.StringTerm("field")
	allowedKey = ast.StringTerm("allowed")
)

// maxViolations is the number of violations of one policy that are decoded.
const maxViolations = 1024

// decode reads the violations that a policy reports. Any other form is an error: a policy
// whose result is not understood was not evaluated.
func decode(ctx context.Context, policy Metadata, mode Mode, reported ast.Value) ([]Violation, error) {
	set, is := reported.(ast.Set)
	if !is {
		return nil, fmt.Errorf("%s: deny must be a set of violations, is %s", policy.Code, typeOf(reported))
	}
	if set.Len() > maxViolations {
		return []Violation{{Code: policy.Code, Mode: mode, Message: fmt.Sprintf("%d violations, too many to list", set.Len())}}, nil
	}
	violations := make([]Violation, 0, set.Len())
	for _, one := range set.Slice() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fields, is := one.Value.(ast.Object)
		if !is {
			return nil, fmt.Errorf("%s: a violation must be an object with message and paths, is %s", policy.Code, typeOf(one.Value))
		}
		v, err := violation(fields)
		if err != nil {
			return nil, fmt.Errorf("%s: violation: %w", policy.Code, err)
		}
		v.Code, v.Mode = policy.Code, mode
		violations = append(violations, v)
	}
	slices.SortFunc(violations, compareViolations)
	return violations, nil
}

func typeOf(value ast.Value) string { return "a value of type " + ast.ValueName(value) }

func violation(fields ast.Object) (v Violation, problem error) {
	v.Message, problem = word(fields, messageKey, problem)
	v.Hint, problem = word(fields, hintKey, problem)
	below, problem := word(fields, belowKey, problem)
	v.Paths, problem = words(fields, pathsKey, below, problem)
	v.Allowed, problem = words(fields, allowedKey, "", problem)
	if problem == nil && v.Message == "" {
		problem = errors.New("message is missing")
	}
	return v, problem
}

func word(fields ast.Object, name *ast.Term, before error) (string, error) {
	value := fields.Get(name)
	if before != nil || value == nil {
		return "", before
	}
	text, is := value.Value.(ast.String)
	if !is {
		return "", fmt.Errorf("%s must be a string, is %s", name.Value.(ast.String), typeOf(value.Value))
	}
	return string(text), nil
}

// words reads a list of strings and appends a field to each.
func words(fields ast.Object, name *ast.Term, below string, before error) ([]string, error) {
	value := fields.Get(name)
	if before != nil || value == nil {
		return nil, before
	}
	list, is := items(value.Value)
	if !is {
		return nil, fmt.Errorf("%s must be a list of strings, is %s", name.Value.(ast.String), typeOf(value.Value))
	}
	var all strings.Builder
	words := make([]string, len(list))
	for i, one := range list {
		text, is := one.Value.(ast.String)
		if !is {
			return nil, fmt.Errorf("%s must be a list of strings, has %s", name.Value.(ast.String), typeOf(one.Value))
		}
		words[i] = string(text)
		if below != "" {
			all.Grow((len(text) + 1 + len(below)) * (len(list) - i))
			begin := all.Len()
			all.WriteString(words[i])
			all.WriteByte('.')
			all.WriteString(below)
			words[i] = all.String()[begin:]
		}
	}
	return words, nil
}

// items are those of a list or, in their order, of a set.
func items(value ast.Value) ([]*ast.Term, bool) {
	list, is := value.(*ast.Array)
	if set, isSet := value.(ast.Set); isSet {
		list, is = set.Sorted(), true
	}
	if !is {
		return nil, false
	}
	terms := make([]*ast.Term, list.Len())
	for i := range terms {
		terms[i] = list.Elem(i)
	}
	return terms, true
}

const (
	// maxPolicyMessages is the number of messages of one policy in one mode.
	maxPolicyMessages = 10
	// maxMessages is the number of messages of one decision.
	maxMessages = 32
	// maxMessageBytes is the length of one message.
	maxMessageBytes = 4096
	// maxOtherPlaces is the number of places that a message names after the first.
	maxOtherPlaces = 2
)

// A Message is the text for the author of a write about violations that differ only in
// their places.
type Message struct {
	// Code is the code of the policy, Mode the mode in which it reports.
	Code string
	Mode Mode
	// Path is the first place; may be empty.
	Path string
	// Message is the problem, what is allowed, the remedy, and the other places.
	Message string
}

// identity is what violations with the same message have in common.
type identity struct {
	code            string
	mode            Mode
	stored          bool
	message, hint   string
	allowed         string
	allowedElements int
}

func identityOf(v *Violation) identity {
	return identity{v.Code, v.Mode, v.Stored, v.Message, v.Hint, strings.Join(v.Allowed, "\x00"), len(v.Allowed)}
}

// groupMessages makes one message of the violations that differ only in their places.
// Messages about denials come first if there are more than the limits allow.
func groupMessages(violations []Violation) []Message {
	groups := make(map[identity]int, len(violations))
	var first []*Violation
	var paths [][]string
	for i := range violations {
		v := &violations[i]
		group, found := groups[identityOf(v)]
		if !found {
			group = len(first)
			groups[identityOf(v)] = group
			first, paths = append(first, v), append(paths, nil)
		}
		paths[group] = append(paths[group], v.Paths...)
	}
	listed, omitted := limitMessages(first)
	type hint struct {
		omission
		text string
	}
	var all []Message
	given := map[hint]bool{}
	for i, v := range first {
		if !listed[i] {
			continue
		}
		of := hint{omission{v.Code, v.Mode}, v.Hint}
		all = append(all, v.messageAt(distinct(paths[i]), !given[of]))
		given[of] = true
	}
	return append(all, omitted...)
}

// omission counts the messages of a policy in a mode that are not listed.
type omission struct {
	code string
	mode Mode
}

// limitMessages selects the messages that are listed, and returns one message for each
// policy and mode that says how many are not.
func limitMessages(first []*Violation) (listed []bool, omitted []Message) {
	order := make([]int, len(first))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(first[b].Mode), rank(first[a].Mode)) })
	listed = make([]bool, len(first))
	shown, hidden := map[omission]int{}, map[omission]int{}
	var more []omission
	total := 0
	for _, i := range order {
		of := omission{first[i].Code, first[i].Mode}
		if shown[of] < maxPolicyMessages && total < maxMessages {
			listed[i] = true
			shown[of]++
			total++
			continue
		}
		if hidden[of] == 0 {
			more = append(more, of)
		}
		hidden[of]++
	}
	for _, of := range more {
		text := fmt.Sprintf("and %d more", hidden[of])
		if shown[of] == 0 {
			text = fmt.Sprintf("%d more violations that are not listed", hidden[of])
		}
		omitted = append(omitted, Message{Code: of.code, Mode: of.mode, Message: text})
	}
	return listed, omitted
}

// distinct returns each path once, those that a message names first and in their order.
func distinct(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	for i := range min(len(paths), 1+maxOtherPlaces) {
		for j := i + 1; j < len(paths); j++ {
			if natural.Compare(paths[j], paths[i]) < 0 {
				paths[i], paths[j] = paths[j], paths[i]
			}
		}
	}
	return paths
}

// messageAt returns the message of a violation with these places, with or without its hint.
func (v *Violation) messageAt(paths []string, hint bool) Message {
	m := Message{Code: v.Code, Mode: v.Mode, Message: v.text(paths, hint)}
	if len(paths) > 0 {
		m.Path = paths[0]
	}
	return m
}

func (v *Violation) text(paths []string, hint bool) string {
	var all strings.Builder
	all.WriteString(v.Message)
	if len(v.Allowed) > 0 {
		all.WriteString("; allowed: ")
		all.WriteString(strings.Join(v.Allowed, ", "))
	}
	if v.Hint != "" && hint {
		all.WriteString("; ")
		all.WriteString(v.Hint)
	}
	if all.Len() > maxMessageBytes {
		text := all.String()[:maxMessageBytes]
		all.Reset()
		all.WriteString(strings.ToValidUTF8(text, ""))
		all.WriteString("...")
	}
	if len(paths) > 1 {
		others := paths[1:min(len(paths), 1+maxOtherPlaces)]
		all.WriteString("; also at ")
		all.WriteString(strings.Join(others, ", "))
		if rest := len(paths) - 1 - len(others); rest > 0 {
			fmt.Fprintf(&all, " and %d more", rest)
		}
	}
	return all.String()
}
