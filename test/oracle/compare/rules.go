package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Side says who alone finds a problem.
type Side string

const (
	// Surplus is a problem that only our rules find.
	Surplus Side = "only ours"
	// Missing is a problem that only the API server finds, although a rule of ours
	// answers for it.
	Missing Side = "only the API server's"
)

// A Difference is a problem that one side finds and the other does not.
type Difference struct {
	Side Side
	Kind string
	// Rule is the rule that found it, or that should have.
	Rule string
	// Type and Place are the problem, the place in our notation.
	Type, Place string
	// Detail is the message.
	Detail string
}

// Signature is what differences have in common that have one cause.
func (d Difference) Signature() string {
	return fmt.Sprintf("%s: %s %s at %s (rule %s)", d.Side, d.Kind, d.Type, Pattern(d.Place), d.Rule)
}

// An Outcome is what the comparison of one case comes to.
type Outcome struct {
	Differences []Difference
	// Agreed is how many problems both sides found.
	Agreed int
	// Uncovered are the API server's errors that no rule of ours answers for yet.
	Uncovered []Difference
}

type problem struct{ kind, place string }

// Rules compares our rules with the oracle's answer to a case, for an API server of
// the minor. An object that the API server cannot read, or crashes on, has nothing
// to compare.
func Rules(c wire.Case, answer wire.Answer, minor int, coverage Coverage) (Outcome, error) {
	if answer.Misuse != "" {
		return Outcome{}, fmt.Errorf("case %s: %s", c.ID, answer.Misuse)
	}
	if answer.DecodeError != "" || answer.Panic != "" {
		return Outcome{}, nil
	}
	if answer.Object != nil {
		c.Object = answer.Object // what is dropped is not judged
	}
	judge, kind, err := judgeFor(c)
	if err != nil {
		return Outcome{}, err
	}
	found, err := judge.rules(c, Profile(minor, c.Gates))
	if err != nil {
		return Outcome{}, fmt.Errorf("case %s: the API server reads the object and we do not: %w", c.ID, err)
	}
	ours, theirs := map[problem]Difference{}, map[problem]Difference{}
	for _, err := range found {
		p := problem{kind: string(err.Type), place: err.Field}
		ours[p] = Difference{Surplus, kind, err.Origin, p.kind, p.place, err.ErrorBody()}
	}
	for _, err := range answer.Errors {
		p := problem{err.Type, judge.named(c, err.Field)}
		theirs[p] = Difference{Missing, kind, "", p.kind, p.place, err.Detail}
	}
	return sets(c, ours, theirs, coverage), nil
}

// sets compares two sets of problems.
func sets(c wire.Case, ours, theirs map[problem]Difference, coverage Coverage) (o Outcome) {
	frozen := isFrozen(theirs)
	for p, difference := range ours {
		if _, both := theirs[p]; both {
			o.Agreed++
		} else if !frozen || coverage.updates {
			o.Differences = append(o.Differences, difference)
		}
	}
	for p, difference := range theirs {
		if _, both := ours[p]; both {
			continue
		}
		var covered bool
		if difference.Rule, covered = coverage.rule(difference); covered {
			o.Differences = append(o.Differences, difference)
		} else {
			o.Uncovered = append(o.Uncovered, difference)
		}
	}
	slices.SortFunc(o.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Side, b.Side))
	})
	return o
}

// isFrozen tells whether the API server has refused the change of an immutable spec:
// it then does not look into the spec.
func isFrozen(theirs map[problem]Difference) bool {
	refused, is := theirs[problem{"FieldValueInvalid", "spec"}]
	return is && strings.Contains(refused.Detail, "immutable")
}

// Profile is the profile of a minor with gates as in a case.
func Profile(minor int, gates map[string]bool) validate.Profile {
	profile := validate.Profile{Minor: minor, Gates: map[validate.Gate]bool{}}
	if on, all := gates[wire.AllDRA]; all {
		for _, gate := range validate.Gates() {
			profile.Gates[gate] = on
		}
	}
	for gate := range maps.Keys(gates) {
		if gate != wire.AllDRA {
			profile.Gates[validate.Gate(gate)] = gates[gate]
		}
	}
	return profile
}
