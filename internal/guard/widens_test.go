package guard_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// TestWidensRoll: the guard is asked about the writes that let a roll drain, more at a time or faster.
func TestWidensRoll(t *testing.T) {
	roll := func(change func(*v1alpha1.DeviceRollSpec)) *v1alpha1.DeviceRoll {
		r := &v1alpha1.DeviceRoll{Spec: v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", AtATime: ptr.To[int32](2)}}
		r.Spec.Drain.EvictionsPerMinute = ptr.To[int32](30)
		change(&r.Spec)
		return r
	}
	same := func(*v1alpha1.DeviceRollSpec) {}
	paused := func(s *v1alpha1.DeviceRollSpec) { s.Paused = true }
	undone := func(s *v1alpha1.DeviceRollSpec) { s.Undo = true }
	for name, tt := range map[string]struct {
		old *v1alpha1.DeviceRoll
		new func(*v1alpha1.DeviceRollSpec)
		is  bool
	}{
		"created":               {nil, same, true},
		"created paused":        {nil, paused, false},
		"created undone":        {nil, undone, false},
		"unchanged":             {roll(same), same, false},
		"paused":                {roll(same), paused, false},
		"resumed":               {roll(paused), same, true},
		"taken up again":        {roll(undone), same, true},
		"undone while paused":   {roll(paused), undone, false},
		"more at a time":        {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.AtATime = ptr.To[int32](3) }, true},
		"fewer at a time":       {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.AtATime = nil }, false},
		"per label":             {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.PerLabel = "zone" }, true},
		"faster":                {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.Drain.EvictionsPerMinute = ptr.To[int32](31) }, true},
		"as fast as possible":   {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.Drain.EvictionsPerMinute = nil }, true},
		"slower":                {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.Drain.EvictionsPerMinute = ptr.To[int32](1) }, false},
		"a canary goes on":      {roll(func(s *v1alpha1.DeviceRollSpec) { s.Canary = 1 }), func(s *v1alpha1.DeviceRollSpec) { s.Canary, s.Continue = 1, 1 }, false},
		"a node is left out":    {roll(same), func(s *v1alpha1.DeviceRollSpec) { s.Skip = []string{"node-1"} }, false},
		"more while it pauses":  {roll(paused), func(s *v1alpha1.DeviceRollSpec) { s.Paused, s.AtATime = true, ptr.To[int32](9) }, false},
		"from one, the default": {roll(func(s *v1alpha1.DeviceRollSpec) { s.AtATime = nil }), same, true},
	} {
		if got := guard.WidensRoll(tt.old, roll(tt.new)); got != tt.is {
			t.Errorf("%s: %v, want %v", name, got, tt.is)
		}
	}
}
