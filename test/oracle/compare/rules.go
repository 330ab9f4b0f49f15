package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

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
	Op   string
	Kind string
	// Rule is the rule that found it, or that should have.
	Rule string
	// Type and Place are the problem, the place in our notation.
	Type, Place string
	// Detail is the message.
	Detail string
	// Below is a list that holds the place and of which the other side says that it
	// is too long, so that it may not have looked at the items; "" if there is none.
	Below string
}

// Signature is what differences have in common that have one cause.
func (d Difference) Signature() string {
	text := fmt.Sprintf("%s: %s of %s, %s at %s (rule %s)", d.Side, d.Op, d.Kind, d.Type, Pattern(d.Place), d.Rule)
	if d.Below != "" {
		text += ", too long is " + Pattern(d.Below)
	}
	return text
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
		d := Difference{Side: Surplus, Op: c.Op, Kind: kind, Rule: err.Origin, Type: string(err.Type), Place: err.Field, Detail: err.ErrorBody()}
		ours[d.problem()] = d
	}
	for _, err := range answer.Errors {
		d := Difference{Side: Missing, Op: c.Op, Kind: kind, Type: err.Type, Place: judge.named(c, err.Field), Detail: err.Detail}
		theirs[d.problem()] = d
	}
	outcome := sets(ours, theirs, coverage)
	if len(outcome.Differences) > 0 {
		gaps, err := judge.gaps(c)
		if err != nil {
			return Outcome{}, err
		}
		outcome.explain(slices.Collect(maps.Keys(theirs)), append(problems(gaps), slices.Collect(maps.Keys(ours))...))
	}
	return outcome, nil
}

func (d Difference) problem() problem { return problem{d.Type, d.Place} }

func problems(errs field.ErrorList) (list []problem) {
	for _, err := range errs {
		list = append(list, problem{string(err.Type), err.Field})
	}
	return list
}

// explain finds out which differences lie below a list that is too long.
func (o *Outcome) explain(theirs, ours []problem) {
	for i := range o.Differences {
		d := &o.Differences[i]
		others := theirs
		if d.Side == Missing {
			others = ours
		}
		for _, other := range others {
			if other.kind == tooMany && strings.HasPrefix(d.Place, other.place+"[") && len(other.place) > len(d.Below) {
				d.Below = other.place
			}
		}
	}
}

// sets compares two sets of problems.
func sets(ours, theirs map[problem]Difference, coverage Coverage) (o Outcome) {
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
