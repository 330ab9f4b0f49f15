package oracle

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// selects: all criteria must be satisfied, the empty selector matches all devices, and
// without a selector no devices are matched.
func selects(s *resourceapi.DeviceTaintSelector, d Device) bool {
	is := func(want *string, have string) bool { return want == nil || *want == have }
	return s != nil && is(s.Driver, d.Driver) && is(s.Pool, d.Pool) && is(s.Device, d.Name)
}

// matches: an empty key matches all keys and values, an empty effect all effects, and Exists
// all values.
func matches(t resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case resourceapi.DeviceTolerationOpExists:
		return true
	case resourceapi.DeviceTolerationOpEqual, "":
		return t.Key != "" && t.Value == taint.Value
	}
	return false
}

// tolerance is how long tolerations let a taint stand.
type tolerance struct {
	forever bool
	// timed is set if there are seconds. A pod may be evicted after the least of them, and
	// must be evicted after the most.
	timed       bool
	least, most time.Duration
}

func tolerate(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) (all tolerance) {
	for _, t := range tolerations {
		if !matches(t, taint) {
			continue
		}
		if t.TolerationSeconds == nil || t.Effect != resourceapi.DeviceTaintEffectNoExecute {
			return tolerance{forever: true}
		}
		d := time.Duration(max(0, *t.TolerationSeconds)) * time.Second
		if !all.timed {
			all = tolerance{timed: true, least: d, most: d}
		}
		all.least, all.most = min(all.least, d), max(all.most, d)
	}
	return all
}
