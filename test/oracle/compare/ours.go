// Package compare holds our rules and defaults against an oracle's answers.
//
// [Rules] compares what the rules that the API server has too (mirror and limit
// rules) say about a write with the oracle's errors, both ways, as sets of type and
// place. As long as we have not all of the API server's rules, a [Coverage] says
// which of its errors ours answer for; the rest is counted as to do. [Defaults]
// holds our mutations to their promises.
//
// Places are in our notation, which names the items of a list (spec.devices[gpu-1])
// where the API server numbers them.
package compare

import (
	stdjson "encoding/json"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// A judge runs our code on the objects of one kind.
type judge interface {
	// rules returns the errors of the rules that the API server has too.
	rules(c wire.Case, profile validate.Profile) (field.ErrorList, error)
	// gaps returns the errors of the rules that no API server has.
	gaps(c wire.Case) (field.ErrorList, error)
	// fill applies the defaults to a case and returns what they change.
	fill(c wire.Case, now time.Time) ([]mutate.Change, error)
	// handed returns the object of a case in the form that admission sees: every
	// struct is there.
	handed(c wire.Case) ([]byte, error)
	// named turns a place of the API server into ours.
	named(c wire.Case, place string) string
}

type name struct{ kind, subresource string }

var judges = map[name]judge{
	{"ResourceSlice", ""}:         judgeOf[resourceapi.ResourceSlice]{validate.ResourceSlice, mutate.ResourceSlice, deviceNames},
	{"ResourceClaim", ""}:         judgeOf[resourceapi.ResourceClaim]{validate.ResourceClaim, mutate.ResourceClaim, claimNames},
	{"ResourceClaim", "status"}:   judgeOf[resourceapi.ResourceClaim]{validate.ResourceClaimStatus, nil, claimNames},
	{"ResourceClaimTemplate", ""}: judgeOf[resourceapi.ResourceClaimTemplate]{validate.ResourceClaimTemplate, mutate.ResourceClaimTemplate, templateNames},
	{"DeviceClass", ""}:           judgeOf[resourceapi.DeviceClass]{validate.DeviceClass, nil, nil},
	{"DeviceTaintRule", ""}:       judgeOf[resourceapi.DeviceTaintRule]{validate.DeviceTaintRule, mutate.DeviceTaintRule, nil},
	{"DeviceTaintRule", "status"}: judgeOf[resourceapi.DeviceTaintRule]{},
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
	table    validate.Table[*T]
	defaults mutate.Table[T]
	names    func(obj *T, place string) string
}

// writeTime is when the cases are written, as far as our rules see it.
var writeTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (j judgeOf[T]) rules(c wire.Case, profile validate.Profile) (field.ErrorList, error) {
	conditions := validate.Conditions{Profile: profile}
	obj, err := j.decode(c.Object)
	if err != nil {
		return nil, err
	}
	if c.Op == wire.Create {
		return j.table.Server().Validate(obj, conditions), nil
	}
	old, err := j.decode(c.Old)
	if err != nil {
		return nil, err
	}
	return j.table.Server().ServerUpdate(old, obj, conditions), nil
}

func (j judgeOf[T]) gaps(c wire.Case) (field.ErrorList, error) {
	obj, err := j.decode(c.Object)
	if err != nil {
		return nil, err
	}
	var gaps validate.Table[*T]
	for _, rule := range j.table {
		if rule.Class == validate.Gap {
			gaps = append(gaps, rule)
		}
	}
	return gaps.Validate(obj, validate.Conditions{}), nil
}

// decode reads an object and fills in what the API server fills in when it reads.
func (j judgeOf[T]) decode(data []byte) (*T, error) {
	obj := new(T)
	if err := json.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return nil, err
	}
	none := func() (*T, error) { return nil, nil }
	_, err := j.defaults.Apply(mutate.Write[T]{Object: obj, Old: none, Now: writeTime}, mutate.Settings{Finalizer: "off"})
	return obj, err
}

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

func (j judgeOf[T]) named(c wire.Case, place string) string {
	if j.names == nil {
		return place
	}
	obj, err := plain[T](c.Object)
	if err != nil {
		return place
	}
	return j.names(obj, place)
}
