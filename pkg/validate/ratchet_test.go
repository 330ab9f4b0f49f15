package validate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// rounds is how many random objects a property is tried on.
const rounds = 2000

// fault is a problem as a rule could report it: a list that is too long by size, or,
// with size 0, a wrong value. A list of faults is the object that is validated.
type fault struct {
	index int
	place string
	size  int
	value string
}

// faults reports every fault of the object.
var faults = Table[[]fault]{{
	ID: "fault",
	Check: func(object []fault, _ Pass) (errs field.ErrorList) {
		for _, f := range object {
			at := field.NewPath("spec", "items").Index(f.index).Child(f.place)
			if f.size > 0 {
				errs = append(errs, field.TooMany(at, f.size, 0))
			} else {
				errs = append(errs, field.Invalid(at, f.value, "wrong"))
			}
		}
		return errs
	},
}}

// same reports whether f could be what was there before: in the same place but for its
// index, and no larger.
func (f fault) same(before fault) bool {
	return f.place == before.place && (f.size > 0) == (before.size > 0) &&
		(f.size > 0 && f.size <= before.size || f.size == 0 && f.value == before.value)
}

func randomFaults(r *rand.Rand) []fault {
	object := make([]fault, r.IntN(6))
	for i := range object {
		object[i] = fault{index: i, place: pick(r, "a", "b"), size: r.IntN(4), value: pick(r, "x", "y")}
	}
	return object
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// everyPair runs property on random objects before and after.
func everyPair(t *testing.T, property func(r *rand.Rand, before, after []fault) error) {
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 0))
		before, after := randomFaults(r), randomFaults(r)
		if err := property(r, before, after); err != nil {
			t.Fatalf("seed %d: %v\nbefore %v\nafter  %v", seed, err, before, after)
		}
	}
}

// excused returns how many of after can be excused at most if each of before excuses
// one, by trying everything.
func excused(before, after []fault) (most int) {
	if len(after) == 0 {
		return 0
	}
	most = excused(before, after[1:])
	for i, old := range before {
		if after[0].same(old) {
			rest := slices.Delete(slices.Clone(before), i, i+1)
			most = max(most, 1+excused(rest, after[1:]))
		}
	}
	return most
}

// TestRatchetLikeTheReference: every problem is denied or tolerated, and as many are
// tolerated as there are old ones to excuse them.
func TestRatchetLikeTheReference(t *testing.T) {
	everyPair(t, func(_ *rand.Rand, before, after []fault) error {
		errs, tolerated := faults.ValidateUpdate(before, after, Conditions{})
		if want := excused(before, after); len(tolerated) != want || len(errs) != len(after)-want {
			return fmt.Errorf("%d errors and %d tolerated, want %d and %d", len(errs), len(tolerated), len(after)-want, want)
		}
		return nil
	})
}

// TestUnchangedIsNoError: whatever is stored can be written again, in any order.
func TestUnchangedIsNoError(t *testing.T) {
	everyPair(t, func(r *rand.Rand, before, _ []fault) error {
		after := slices.Clone(before)
		r.Shuffle(len(after), func(i, j int) { after[i], after[j] = after[j], after[i] })
		if errs, _ := faults.ValidateUpdate(before, after, Conditions{}); len(errs) > 0 {
			return errs.ToAggregate()
		}
		return nil
	})
}

// TestImprovementIsNoError: fewer problems, and smaller ones, pass.
func TestImprovementIsNoError(t *testing.T) {
	everyPair(t, func(r *rand.Rand, before, _ []fault) error {
		after := slices.DeleteFunc(slices.Clone(before), func(fault) bool { return r.IntN(3) == 0 })
		for i := range after {
			if after[i].index = i; after[i].size > 1 {
				after[i].size -= r.IntN(2)
			}
		}
		if errs, _ := faults.ValidateUpdate(before, after, Conditions{}); len(errs) > 0 {
			return errs.ToAggregate()
		}
		return nil
	})
}

// TestGrowthIsAnError: a problem more, or a larger one, does not pass.
func TestGrowthIsAnError(t *testing.T) {
	everyPair(t, func(r *rand.Rand, before, _ []fault) error {
		after := slices.Clone(before)
		if i := slices.IndexFunc(after, func(f fault) bool { return f.size > 0 }); i >= 0 && r.IntN(2) == 0 {
			after[i].size += 3 // beyond all that is there
		} else {
			after = append(after, fault{index: len(after), place: pick(r, "a", "b"), size: r.IntN(4), value: pick(r, "x", "y")})
		}
		if errs, _ := faults.ValidateUpdate(before, after, Conditions{}); len(errs) != 1 {
			return fmt.Errorf("%d errors, want 1", len(errs))
		}
		return nil
	})
}

// TestRulesDoNotExcuseEachOther: a problem of one rule is no excuse for one of another
// in the same place.
func TestRulesDoNotExcuseEachOther(t *testing.T) {
	rule := func(id string, when int) Rule[int] {
		return Rule[int]{ID: id, Check: func(object int, _ Pass) field.ErrorList {
			if object != when {
				return nil
			}
			return field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "wrong")}
		}}
	}
	table := Table[int]{rule("first", 1), rule("second", 2)}
	errs, tolerated := table.ValidateUpdate(1, 2, Conditions{})
	if len(errs) != 1 || errs[0].Origin != "second" || len(tolerated) > 0 {
		t.Errorf("got %v, %v", errs, tolerated)
	}
}

// TestUnchangedConstraints: the two validations of 1.37 differ about upper case in the
// domain of an attribute, and the one that refuses it looks at what has changed only.
func TestUnchangedConstraints(t *testing.T) {
	name := resourceapi.FullyQualifiedName("Example.com/a")
	old := &resourceapi.ResourceClaimTemplate{}
	old.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &name}}
	changed := old.DeepCopy()
	changed.Spec.Spec.Devices.Constraints = append(changed.Spec.Spec.Devices.Constraints, changed.Spec.Spec.Devices.Constraints...)
	for _, test := range []struct {
		now   *resourceapi.ResourceClaimTemplate
		found int
	}{{old.DeepCopy(), 0}, {changed, 2}} {
		found := 0
		for _, err := range apiserver.ResourceClaimTemplate().ValidateUpdate(old, test.now, apiserver.Conditions{}) {
			if err.Origin == "constraint-attribute" {
				found++
			}
		}
		if found != test.found {
			t.Errorf("%d constraints: found %d, want %d", len(test.now.Spec.Spec.Devices.Constraints), found, test.found)
		}
	}
}

// TestConsumersInOrder: the missing counters of a consumer are reported in the same order
// each time.
func TestConsumersInOrder(t *testing.T) {
	claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{}},
	}}
	want := []string{"status.reservedFor[0].resource", "status.reservedFor[0].name", "status.reservedFor[0].uid"}
	for range 100 {
		if got := only("reserved-consumer", ResourceClaimStatus().Validate(claim, Conditions{})); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// TestUnchangedAlternatives: of a request in both forms 1.37 looks at what an update has
// changed of each alternative; 1.34 looks at everything.
func TestUnchangedAlternatives(t *testing.T) {
	old := &resourceapi.ResourceClaimTemplate{}
	old.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{
		Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "a", AllocationMode: "Most", Count: 1}},
	}}
	now := old.DeepCopy()
	request := &now.Spec.Spec.Devices.Requests[0]
	request.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}
	request.FirstAvailable[0].Count = 2
	for minor, want := range map[int]int{34: 1, 35: 0, 36: 0, 37: 0} {
		c := apiserver.Conditions{Profile: apiserver.Profile{Minor: minor}}
		if got := only("request-mode", apiserver.ResourceClaimTemplate().ValidateUpdate(old, now, c)); len(got) != want {
			t.Errorf("1.%d: %q, want %d", minor, got, want)
		}
	}
}
