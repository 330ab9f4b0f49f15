package mutate_test

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// TestRenewalInRules follows the time of a DeviceTaintRule through its updates.
func TestRenewalInRules(t *testing.T) {
	rule := func(effect resourceapi.DeviceTaintEffect, value string, age int) *resourceapi.DeviceTaintRule {
		r := &resourceapi.DeviceTaintRule{}
		r.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/a", Value: value, Effect: effect}
		if age >= 0 {
			r.Spec.Taint.TimeAdded = at(-hours(age))
		}
		return r
	}
	for _, test := range []struct {
		name     string
		old, new *resourceapi.DeviceTaintRule
		want     int
	}{
		{"created", nil, rule("None", "", -1), 0},
		{"created with a time", nil, rule("None", "", 3), 3},
		{"unchanged", rule("None", "", 3), rule("None", "", 3), 3},
		{"effect changed, time kept", rule("None", "", 3), rule("NoExecute", "", 3), 0},
		{"effect changed, time left out", rule("None", "", 3), rule("NoExecute", "", -1), 0},
		{"effect changed, time chosen", rule("None", "", 3), rule("NoExecute", "", 1), 1},
		{"value changed, time kept", rule("NoExecute", "a", 3), rule("NoExecute", "b", 3), 3},
		{"applied again without a time", rule("NoExecute", "", 3), rule("NoExecute", "", -1), 0},
		{"effect changed, nothing stored", rule("None", "", -1), rule("NoExecute", "", 3), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			write := mutate.Write[resourceapi.DeviceTaintRule]{
				Object: test.new, Old: func() (*resourceapi.DeviceTaintRule, error) { return test.old, nil }, Now: writeTime,
			}
			if _, err := mutate.DeviceTaintRule().Apply(write, mutate.Settings{}); err != nil {
				t.Fatal(err)
			}
			if got := test.new.Spec.Taint.TimeAdded; !got.Time.Equal(at(-hours(test.want)).Time) {
				t.Errorf("got %v, want %d hours before the write", got, test.want)
			}
		})
	}
}

func hours(n int) time.Duration { return time.Duration(n) * time.Hour }
