package mutate_test

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// A taint rule without a time gets one, so that tolerations of a limited time end.
func ExampleTable_Apply() {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "repair"}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/repair", Effect: resourceapi.DeviceTaintEffectNoExecute}
	result, err := mutate.DeviceTaintRule().Apply(mutate.Write[resourceapi.DeviceTaintRule]{
		Object: rule, Old: func() (*resourceapi.DeviceTaintRule, error) { return nil, nil }, // a CREATE
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}, mutate.Settings{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range result.Changes {
		fmt.Println(change.Default, change.Pointer, change.Value)
	}
	// Output:
	// taint-time-set /spec/taint/timeAdded 2026-03-01 12:00:00 +0000 UTC
}

// A claim gets the finalizer without which its allocation is never released.
func ExampleTable_Apply_finalizer() {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "training"}}
	result, err := mutate.ResourceClaim().Apply(mutate.Write[resourceapi.ResourceClaim]{
		Object: claim, Old: func() (*resourceapi.ResourceClaim, error) { return nil, nil }, // a CREATE
	}, mutate.Settings{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range result.Changes {
		fmt.Println(change.Pointer, change.Value)
	}
	// Output:
	// /metadata/finalizers [resource.kubernetes.io/delete-protection]
}

// Each default has an ID, under which it is reported and documented.
func ExampleDefaults() {
	for _, d := range mutate.Defaults()[:2] {
		fmt.Println(d.ID, d.Kinds)
	}
	// Output:
	// taint-time-keep [ResourceSlice]
	// taint-time-set [ResourceSlice DeviceTaintRule]
}

// Settings that contradict the API are refused.
func ExampleSettings_Validate() {
	fmt.Println(mutate.Settings{TimeAddedWindow: &metav1.Duration{Duration: -time.Second}}.Validate())
	// Output:
	// defaults.timeAddedWindow: Invalid value: "-1s": must be between 0s (off) and 1m0s
}
