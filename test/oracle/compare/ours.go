// Package compare holds our rules and defaults against an oracle's answers.
//
// [Rules] compares what the rules that the API server has too (mirror and limit
// rules) say about a write with the oracle's errors, both ways, as sets of type and
// place. Package campaign holds our mutations to their promises, by [Mutated] and
// [AfterServer].
//
// Places are in our notation, which names the items of a list (spec.devices[gpu-1])
// where the API server numbers them.
package compare

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// A judge knows the Go type of a kind's objects.
type judge interface {
	// fill applies the defaults to a case and returns what they change.
	fill(c wire.Case, now time.Time) ([]mutate.Change, error)
	// handed returns the object of a case in the form that admission sees: every
	// struct is there.
	handed(c wire.Case) ([]byte, error)
	// dropped returns the paths of what our drops take from the object of a case; false
	// if it cannot be read.
	dropped(c wire.Case, profile apiserver.Profile) ([]string, bool)
	// names returns what turns a place of the API server into ours.
	names(c wire.Case) func(place string) string
}

type name struct{ kind, subresource string }

var judges = map[name]judge{
	{"ResourceSlice", ""}:         judgeOf[resourceapi.ResourceSlice]{mutate.ResourceSlice(), apiserver.ResourceSliceDrops(), sliceNames},
	{"ResourceClaim", ""}:         judgeOf[resourceapi.ResourceClaim]{mutate.ResourceClaim(), apiserver.ResourceClaimDrops(), claimNames},
	{"ResourceClaim", "status"}:   judgeOf[resourceapi.ResourceClaim]{nil, apiserver.ResourceClaimStatusDrops(), claimNames},
	{"ResourceClaimTemplate", ""}: judgeOf[resourceapi.ResourceClaimTemplate]{mutate.ResourceClaimTemplate(), apiserver.ResourceClaimTemplateDrops(), claimNames},
	{"DeviceClass", ""}:           judgeOf[resourceapi.DeviceClass]{drops: apiserver.DeviceClassDrops()},
	{"DeviceTaintRule", ""}:       judgeOf[resourceapi.DeviceTaintRule]{mutate.DeviceTaintRule(), apiserver.DeviceTaintRuleDrops(), nil},
	{"DeviceTaintRule", "status"}: judgeOf[resourceapi.DeviceTaintRule]{drops: apiserver.DeviceTaintRuleDrops()},
}

// reviewer remembers compiled expressions for all cases.
var reviewer = sync.OnceValues(func() (review.Reviewer, error) { return review.New(v1alpha1.StewardConfiguration{}) })

// server returns what our rules that the API server has too say of a case.
func server(c wire.Case, kind string, minor int) (field.ErrorList, error) {
	r, err := reviewer()
	if err != nil {
		return nil, err
	}
	r.Profile = Profile(minor, c.Gates)
	found, err := r.Server(request(c, kind))
	if unknown := (review.UnknownKindError{}); errors.As(err, &unknown) {
		return nil, nil
	}
	return found, err
}

// refused returns the lists that are too long for our gap rules, with all else that we
// say of a case.
func refused(c wire.Case, kind string, minor int) ([]problem, error) {
	r, err := reviewer()
	if err != nil {
		return nil, err
	}
	r.Profile = Profile(minor, c.Gates)
	answer, err := r.Review(request(c, kind))
	var list []problem
	for _, f := range answer.Findings {
		list = append(list, problem{string(f.Type), f.Path})
	}
	return list, err
}

func request(c wire.Case, kind string) review.Request {
	return review.Request{
		Kind: resourceapi.SchemeGroupVersion.WithKind(kind), Subresource: c.Subresource,
		Object: c.Object, Old: c.Old, Now: writeTime,
	}
}

// judgeFor returns the judge of a case and the kind of its object.
func judgeFor(c wire.Case) (judge, string, error) {
	var meta metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(c.Object, &meta); err != nil {
		return nil, "", fmt.Errorf("case %s: %w", c.ID, err)
	}
	judge, known := judges[name{meta.Kind, c.Subresource}]
	if !known {
		return nil, "", fmt.Errorf("case %s: kind %q with subresource %q is not judged", c.ID, meta.Kind, c.Subresource)
	}
	return judge, meta.Kind, nil
}

type judgeOf[T any] struct {
	defaults mutate.Table[T]
	drops    apiserver.Drops[*T]
	place    func(object []byte) func(place string) string
}

// writeTime is when the cases are written, as far as our rules see it.
var writeTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (j judgeOf[T]) fill(c wire.Case, now time.Time) ([]mutate.Change, error) {
	obj, err := plain[T](c.Object)
	if err != nil {
		return nil, err
	}
	old := func() (*T, error) {
		if c.Op == wire.Create {
			return nil, nil
		}
		return plain[T](c.Old)
	}
	result, err := j.defaults.Apply(mutate.Write[T]{Object: obj, Old: old, Now: now}, mutate.Settings{})
	return result.Changes, err
}

func (j judgeOf[T]) handed(c wire.Case) ([]byte, error) {
	obj, err := plain[T](c.Object)
	if err != nil {
		return nil, err
	}
	return stdjson.Marshal(obj)
}

func plain[T any](data []byte) (*T, error) {
	obj := new(T)
	return obj, json.UnmarshalCaseSensitivePreserveInts(data, obj)
}

func (j judgeOf[T]) names(c wire.Case) func(place string) string {
	if j.place == nil {
		return func(place string) string { return place }
	}
	return j.place(c.Object)
}
