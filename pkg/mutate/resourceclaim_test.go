package mutate_test

import (
	"errors"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// life is a claim at some time of its life: f has the finalizer, a an allocation, d is
// being deleted, o has another finalizer; "none" is before its creation.
func life(state string) *resourceapi.ResourceClaim {
	if state == "none" {
		return nil
	}
	claim := &resourceapi.ResourceClaim{}
	for _, letter := range state {
		switch letter {
		case 'f':
			claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		case 'o':
			claim.Finalizers = append(claim.Finalizers, "example.com/other")
		case 'a':
			claim.Status.Allocation = &resourceapi.AllocationResult{}
		case 'd':
			claim.DeletionTimestamp = &metav1.Time{Time: writeTime}
		}
	}
	return claim
}

// TestFinalizer follows a claim through its life, in every mode.
func TestFinalizer(t *testing.T) {
	const add, leave = true, false
	for _, test := range []struct {
		name, old, new string
		create, repair bool
	}{
		{"created", "none", "", add, leave},
		{"created with another finalizer", "none", "o", add, leave},
		{"created with the finalizer", "none", "f", leave, leave},
		{"created as allocated, as from a backup", "none", "a", add, leave},
		{"updated before allocation", "", "", leave, leave},
		{"updated before allocation, with it", "f", "f", leave, leave},
		{"updated while allocated", "fa", "fa", leave, leave},
		{"allocated without it", "a", "a", add, add},
		{"allocated without it, with another", "oa", "oa", add, add},
		{"allocated without it, repaired by the author", "a", "fa", leave, leave},
		{"the controller lets go", "fa", "a", leave, leave},
		{"the controller lets go after deallocation", "f", "", leave, leave},
		{"deletion begins", "fa", "fad", leave, leave},
		{"being deleted, the controller lets go", "fad", "ad", leave, leave},
		{"being deleted, allocated without it", "ad", "ad", leave, leave},
		{"being deleted, other finalizer goes", "od", "d", leave, leave},
	} {
		for mode, want := range map[v1alpha1.FinalizerMode]bool{
			"": test.create, v1alpha1.FinalizerCreate: test.create, v1alpha1.FinalizerRepair: test.repair, v1alpha1.FinalizerOff: leave,
		} {
			t.Run(test.name+"/"+string(mode), func(t *testing.T) { checkFinalizer(t, life(test.old), life(test.new), mode, want) })
		}
	}
}

func checkFinalizer(t *testing.T, old, object *resourceapi.ResourceClaim, mode v1alpha1.FinalizerMode, want bool) {
	t.Helper()
	before := slices.Clone(object.Finalizers)
	write := mutate.Write[resourceapi.ResourceClaim]{
		Object: object, Old: func() (*resourceapi.ResourceClaim, error) { return old, nil }, Now: writeTime,
	}
	result, err := mutate.ResourceClaim().Apply(write, mutate.Settings{Finalizer: mode})
	if err != nil {
		t.Fatal(err)
	}
	if added := len(result.Changes) > 0; added != want {
		t.Errorf("added: %t, want %t", added, want)
	}
	if want {
		before = append(before, resourceapi.Finalizer)
	}
	if !slices.Equal(object.Finalizers, before) {
		t.Errorf("finalizers %q, want %q", object.Finalizers, before)
	}
	if again, err := mutate.ResourceClaim().Apply(write, mutate.Settings{Finalizer: mode}); err != nil || len(again.Changes) > 0 {
		t.Errorf("again: %v, %v", again.Changes, err)
	}
}

// TestOldIsAskedOnlyWhenNeeded: decoding a large stored slice costs time. An error of
// it is an error of the write.
func TestOldIsAskedOnlyWhenNeeded(t *testing.T) {
	broken := errors.New("broken")
	old := func() (*resourceapi.ResourceClaim, error) { return nil, broken }
	claim := mutate.Write[resourceapi.ResourceClaim]{Object: life(""), Old: old, Now: writeTime}
	if _, err := mutate.ResourceClaim().Apply(claim, mutate.Settings{}); !errors.Is(err, broken) {
		t.Errorf("claim: error %v, want %v", err, broken)
	}
	write := mutate.Write[resourceapi.ResourceSlice]{
		Object: slice(resourceapi.Device{Name: "gpu-0"}), Old: func() (*resourceapi.ResourceSlice, error) { return nil, broken }, Now: writeTime,
	}
	if _, err := mutate.ResourceSlice().Apply(write, mutate.Settings{}); err != nil {
		t.Errorf("a slice without taints: %v", err)
	}
}

// TestNoOld: a write without Old is a creation.
func TestNoOld(t *testing.T) {
	result, err := mutate.ResourceClaim().Apply(mutate.Write[resourceapi.ResourceClaim]{Object: life(""), Now: writeTime}, mutate.Settings{})
	if err != nil || len(result.Changes) != 1 {
		t.Errorf("claim: %+v, %v, want the finalizer", result, err)
	}
	tainted := slice(resourceapi.Device{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "a", Effect: resourceapi.DeviceTaintEffectNoExecute}}})
	if result, err := mutate.ResourceSlice().Apply(mutate.Write[resourceapi.ResourceSlice]{Object: tainted, Now: writeTime}, mutate.Settings{}); err != nil || len(result.Changes) != 1 {
		t.Errorf("slice: %+v, %v, want the time of the taint", result, err)
	}
}
