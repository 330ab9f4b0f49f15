package mutate

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// previousTaints are the taints of a stored slice that no taint of its update has been
// matched with yet: device name and taint -> times, in the order of the slice.
type previousTaints map[taintOfDevice][]*metav1.Time

type taintOfDevice struct {
	device, key, value string
	effect             resourceapi.DeviceTaintEffect
}

func rememberTaints(slice *resourceapi.ResourceSlice) previousTaints {
	past := previousTaints{}
	for _, device := range taintedDevices(slice) {
		for _, taint := range device.Taints {
			if taint.TimeAdded != nil {
				id := taintOfDevice{device.Name, taint.Key, taint.Value, taint.Effect}
				past[id] = append(past[id], taint.TimeAdded)
			}
		}
	}
	return past
}

// take returns the time of the same taint and forgets it; nil if there is no such taint.
func (p previousTaints) take(device string, taint resourceapi.DeviceTaint) *metav1.Time {
	id := taintOfDevice{device, taint.Key, taint.Value, taint.Effect}
	times := p[id]
	if len(times) == 0 {
		return nil
	}
	p[id] = times[1:]
	return times[0]
}

// otherEffect returns the effect of a taint that is left over, equals taint in all
// else and has its time; "" if there is none.
func (p previousTaints) otherEffect(device string, taint resourceapi.DeviceTaint) resourceapi.DeviceTaintEffect {
	if taint.TimeAdded == nil {
		return ""
	}
	for _, effect := range []resourceapi.DeviceTaintEffect{
		resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute,
	} {
		if effect == taint.Effect {
			continue
		}
		for _, added := range p[taintOfDevice{device, taint.Key, taint.Value, effect}] {
			if added.Time.Equal(taint.TimeAdded.Time) {
				return effect
			}
		}
	}
	return ""
}
