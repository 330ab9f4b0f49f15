package compare

import (
	stdjson "encoding/json"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Drops compares what our drops take from the object of a case with what the API server
// does not keep of it, both ways. There is nothing to compare unless the answer is full.
func Drops(c wire.Case, answer wire.Answer, minor int) ([]Difference, error) {
	if !c.Full || answer.Object == nil {
		return nil, nil
	}
	judge, kind, err := judgeFor(c)
	if err != nil {
		return nil, err
	}
	ours, readable := judge.dropped(c, Profile(minor, c.Gates))
	if !readable {
		return nil, nil // Rules reports it
	}
	theirs := slices.DeleteFunc(slices.Clone(answer.Dropped), func(path string) bool { return !strings.HasPrefix(path, part(c)) })
	if c.Subresource != "" {
		kind += "/" + c.Subresource
	}
	return append(alone(Surplus, ours, theirs, c.Op, kind), alone(Missing, theirs, ours, c.Op, kind)...), nil
}

// part is what a client writes by a case: the other part stays as it is stored, gates or
// not.
func part(c wire.Case) string {
	if c.Subresource != "" {
		return c.Subresource
	}
	return "spec"
}

// deallocated is what the API server also takes away without a gate: the status of devices
// that an update of the status takes out of the allocation. Rules holds that.
const deallocated = "status.devices"

func alone(side Side, paths, others []string, op, kind string) (list []Difference) {
	for _, path := range paths {
		if !slices.Contains(others, path) && (side == Surplus || path != deallocated) {
			list = append(list, Difference{Side: side, Op: op, Kind: kind, Type: "dropped", Place: path})
		}
	}
	return list
}

func (j judgeOf[T]) dropped(c wire.Case, profile apiserver.Profile) ([]string, bool) {
	obj, err := plain[T](c.Object)
	if err != nil {
		return nil, false
	}
	var old *T
	if c.Op == wire.Update {
		if old, err = plain[T](c.Old); err != nil {
			return nil, false
		}
	}
	j.drops.Apply(old, obj, c.Op == wire.Update, profile)
	kept, err := stdjson.Marshal(obj)
	if err != nil {
		return nil, false
	}
	var was, is map[string]any
	if stdjson.Unmarshal(c.Object, &was) != nil || stdjson.Unmarshal(kept, &is) != nil {
		return nil, false
	}
	return wire.Removed(part(c), was[part(c)], is[part(c)]), true
}
