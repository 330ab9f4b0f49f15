package mutate

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSlice lists the defaults for ResourceSlices. Append yours here and put
// its examples into examples/<ID>.txtar.
var ResourceSlice = Table[resourceapi.ResourceSlice]{
	{
		ID: "taint-time-keep",
		Doc: `A taint that was there before keeps its timeAdded.

A driver that applies its slice again without times gets new ones from the API
server each time, and every toleration starts anew: an eviction that is due in five
minutes never happens. So a time that lies within the window around the write, and
after the stored one, is taken for one that the API server filled in, and the stored
one comes back; only for a taint with the same device, key, value and effect. A taint
that was absent for a while is a new taint.

A webhook cannot see whether the driver or the API server set the time. The setting
defaults.timeAddedWindow (5s) says how near the write counts; 0s switches this off.

A taint whose effect changed while its time stayed is left alone, with a warning:
pods that tolerate it for some seconds may have none left.`,
		Server: "does not; the slice's devices are one atomic value to server-side apply",
		Source: "KEP-5055, DeviceTaint.TimeAdded; fact: three applies, three times, three generations on 1.37",
		Apply:  keepTimes,
	},
	{
		ID:     "taint-time-set",
		Doc:    taintTimeSetDoc,
		Server: taintTimeSetServer,
		Source: taintTimeSetSource,
		Apply:  setTimes,
	},
}

func setTimes(w Write[resourceapi.ResourceSlice], _ Settings) (result Result, _ error) {
	for i := range w.Object.Spec.Devices {
		taints := w.Object.Spec.Devices[i].Taints
		for j := range taints {
			if taints[j].TimeAdded == nil {
				taints[j].TimeAdded = w.now()
				result.Changes = append(result.Changes, Change{Pointer: taintPointer(i, j), Value: w.now()})
			}
		}
	}
	return result, nil
}

func keepTimes(w Write[resourceapi.ResourceSlice], settings Settings) (result Result, _ error) {
	if !tainted(w.Object) {
		return Result{}, nil
	}
	old, err := w.Old()
	if err != nil || old == nil {
		return Result{}, err
	}
	past := rememberTaints(old)
	var added []placedTaint
	for i := range w.Object.Spec.Devices {
		device := &w.Object.Spec.Devices[i]
		for j := range device.Taints {
			taint := &device.Taints[j]
			stored := past.take(device.Name, *taint)
			if stored == nil {
				added = append(added, placedTaint{device.Name, j, taint})
				continue
			}
			if filledIn(taint.TimeAdded, *stored, w.Now, settings.timeAddedWindow()) {
				taint.TimeAdded = stored
				result.Changes = append(result.Changes, Change{Pointer: taintPointer(i, j), Value: stored})
			}
		}
	}
	result.Warnings = staleTimes(added, past)
	return result, nil
}

// placedTaint is a taint and where it stands.
type placedTaint struct {
	device string
	index  int
	taint  *resourceapi.DeviceTaint
}

func tainted(slice *resourceapi.ResourceSlice) bool {
	for i := range slice.Spec.Devices {
		if len(slice.Spec.Devices[i].Taints) > 0 {
			return true
		}
	}
	return false
}

// filledIn tells whether a taint's time was set because it was missing: it still is,
// or it is newer than the stored one and about now.
func filledIn(added *metav1.Time, stored metav1.Time, now time.Time, window time.Duration) bool {
	switch {
	case window == 0:
		return false
	case added == nil:
		return true
	default:
		return added.After(stored.Time) && now.Sub(added.Time).Abs() <= window
	}
}

// staleTimes warns about the taints among added that replace one with another
// effect and took over its time.
func staleTimes(added []placedTaint, past pastTaints) (warnings []Warning) {
	for _, a := range added {
		was := past.otherEffect(a.device, *a.taint)
		if was == "" {
			continue
		}
		warnings = append(warnings, Warning{
			Path: fmt.Sprintf("spec.devices[%s].taints[%d].timeAdded", a.device, a.index),
			Message: fmt.Sprintf("the effect changed from %s to %s and the time stayed %s, so tolerationSeconds count from then; leave timeAdded out or set it to now",
				was, a.taint.Effect, a.taint.TimeAdded.UTC().Format(time.RFC3339)),
		})
	}
	return warnings
}
