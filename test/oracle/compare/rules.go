package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Side says who alone finds a problem.
type Side string

const (
	// Surplus is a problem that only our rules find.
	Surplus Side = "only ours"
	// Missing is a problem that only the API server finds.
	Missing Side = "only the API server's"
	// Unreadable is an object that the API server reads and we do not.
	Unreadable Side = "unreadable for us only"
)

// A Difference is a problem that one side finds and the other does not.
type Difference struct {
	Side Side
	Op   string
	// Kind is the kind of the object, with the subresource: ResourceClaim/status.
	Kind string
	// Rule is the rule of ours that found it.
	Rule string
	// Type and Place are the problem, the place in our notation.
	Type, Place string
	// Detail is the message.
	Detail string
	// Below is what holds the place and is refused as a whole by the other side, which
	// may not have looked into it: a list that is too long, or a request that is both
	// exact and has alternatives; "" if there is none.
	Below string
}

// Signature is what differences have in common that have one cause.
func (d Difference) Signature() string {
	text := fmt.Sprintf("%s: %s of %s, %s at %s", d.Side, d.Op, d.Kind, d.Type, Pattern(d.Place))
	if d.Rule != "" {
		text += ", rule " + d.Rule
	}
	if d.Below != "" {
		text += ", refused as a whole is " + Pattern(d.Below)
	}
	return text
}

// An Outcome is what the comparison of one case comes to.
type Outcome struct {
	Differences []Difference
	// Agreed is how many problems both sides found.
	Agreed int
}

type problem struct{ kind, place string }

// Rules compares our rules with the oracle's answer to a case, for an API server of
// the minor. An object that the API server cannot read, or crashes on, has nothing
// to compare.
func Rules(c wire.Case, answer wire.Answer, minor int) (Outcome, error) {
	if answer.Misuse != "" {
		return Outcome{}, fmt.Errorf("case %s: %s", c.ID, answer.Misuse)
	}
	if answer.DecodeError != "" || answer.Panic != "" {
		return Outcome{}, nil
	}
	judge, kind, err := judgeFor(c)
	if err != nil {
		return Outcome{}, err
	}
	found, err := server(c, kind, minor)
	if err != nil {
		d := Difference{Side: Unreadable, Op: c.Op, Kind: kind, Detail: err.Error()}
		return Outcome{Differences: []Difference{d}}, nil
	}
	if c.Subresource != "" {
		kind += "/" + c.Subresource
	}
	ours, theirs := map[problem]Difference{}, map[problem]Difference{}
	for _, err := range found {
		d := Difference{Side: Surplus, Op: c.Op, Kind: kind, Rule: err.Origin, Type: string(err.Type), Place: err.Field, Detail: err.ErrorBody()}
		ours[d.problem()] = d
	}
	named := judge.names(c)
	for _, err := range answer.Errors {
		d := Difference{Side: Missing, Op: c.Op, Kind: kind, Type: err.Type, Place: named(err.Field), Detail: err.Detail}
		theirs[d.problem()] = d
	}
	outcome := sets(ours, theirs)
	if len(outcome.Differences) > 0 {
		others, err := refused(c, strings.TrimSuffix(kind, "/status"), minor)
		if unknown := (review.UnknownKindError{}); err != nil && !errors.As(err, &unknown) {
			return Outcome{}, err
		}
		outcome.explain(slices.Collect(maps.Keys(theirs)), append(others, slices.Collect(maps.Keys(ours))...))
	}
	return outcome, nil
}

func (d Difference) problem() problem { return problem{d.Type, d.Place} }

// explain finds out which differences lie below what the other side refuses as a whole.
func (o *Outcome) explain(theirs, ours []problem) {
	for i := range o.Differences {
		d := &o.Differences[i]
		others := theirs
		if d.Side == Missing {
			others = ours
		}
		for _, other := range others {
			list := other.kind == string(field.ErrorTypeTooMany) && strings.HasPrefix(d.Place, other.place+"[")
			request := other.kind == string(field.ErrorTypeInvalid) && requestPlace.MatchString(other.place) && strings.HasPrefix(d.Place, other.place+".")
			if (list || request) && len(other.place) > len(d.Below) {
				d.Below = other.place
			}
		}
	}
}

var requestPlace = regexp.MustCompile(`^spec(\.spec)?\.devices\.requests\[[^.]*\]$`)

// sets compares two sets of problems.
func sets(ours, theirs map[problem]Difference) (o Outcome) {
	for p, difference := range ours {
		if _, both := theirs[p]; both {
			o.Agreed++
		} else {
			o.Differences = append(o.Differences, difference)
		}
	}
	for p, difference := range theirs {
		if _, both := ours[p]; !both {
			o.Differences = append(o.Differences, difference)
		}
	}
	slices.SortFunc(o.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Side, b.Side))
	})
	return o
}

// Profile is the profile of a minor with gates as in a case.
func Profile(minor int, gates map[string]bool) apiserver.Profile {
	profile := apiserver.Profile{Minor: minor, Gates: map[apiserver.Gate]bool{}}
	if on, all := gates[wire.AllDRA]; all {
		for _, gate := range apiserver.Gates() {
			profile.Gates[gate] = on
		}
	}
	for gate := range maps.Keys(gates) {
		if gate != wire.AllDRA {
			profile.Gates[apiserver.Gate(gate)] = gates[gate]
		}
	}
	return profile
}
