package mutate

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSlice lists the defaults for ResourceSlices. Append yours here and put
// its examples into examples/<ID>.txtar.
func ResourceSlice() Table[resourceapi.ResourceSlice] {
	return Table[resourceapi.ResourceSlice]{
		{
			ID: "taint-time-keep",
			Doc: `An existing taint keeps its timeAdded.

When a driver applies its slice again without times, the API server sets new ones, and every
toleration starts again: an eviction that is due in five minutes never happens. A time within
the window around the write, and after the stored time, counts as set by the API server, and
the stored time is restored. That applies only to a taint with the same device, key, value
and effect. A taint that was absent for a while is a new taint.

A webhook cannot see if the driver or the API server set the time. The setting
defaults.timeAddedWindow (5s) is the length of the window; 0s turns this off.

A taint whose effect changes while its time stays is not changed, with a warning: the
tolerationSeconds of pods can be used up already.`,
			Upstream: "does not; the slice's devices are one atomic value to server-side apply",
			Source:   "KEP-5055, DeviceTaint.TimeAdded; fact: three applies, three times, three generations on 1.37",
			Apply:    keepTimes,
		},
		{
			ID:       "taint-time-set",
			Doc:      taintTimeSetDoc,
			Upstream: taintTimeSetServer,
			Source:   taintTimeSetSource,
			Apply:    setTimes,
		},
		{
			ID: "taint-time-past",
			Doc: `A new NoExecute taint whose time is more than an hour ago draws a warning.

tolerationSeconds count from timeAdded, so pods with a toleration that is shorter than that
are evicted at once. The time is not changed: a driver that publishes its slices again
repeats the times of its taints, and a later time would start each toleration again, so that
an eviction that is due never happens.`,
			Upstream: "accepts every time",
			Source:   "KEP-5055, DeviceTaint.TimeAdded",
			Apply:    warnOfPastTimes,
		},
	}
}

// pastTime is how long ago the time of a new taint may be without a warning.
const pastTime = time.Hour

func warnOfPastTimes(w Write[resourceapi.ResourceSlice], _ Settings) (result Result, _ error) {
	var old []placedTaint
	for i, device := range taintedDevices(w.Object) {
		for j := range device.Taints {
			taint := &device.Taints[j]
			if taint.Effect == resourceapi.DeviceTaintEffectNoExecute && taint.TimeAdded != nil && w.Now.Sub(taint.TimeAdded.Time) > pastTime {
				old = append(old, placedTaint{i, device.Name, j, taint})
			}
		}
	}
	if old == nil {
		return Result{}, nil
	}
	past := previousTaints{}
	switch stored, err := w.old(); {
	case err != nil:
		return Result{}, err
	case stored != nil:
		past = rememberTaints(stored)
	}
	for _, t := range old {
		// taint-time-keep reports a taint with another effect.
		if past.take(t.device, *t.taint) != nil || past.otherEffect(t.device, *t.taint) != "" {
			continue
		}
		result.Warnings = append(result.Warnings, Warning{Path: t.path(), Message: fmt.Sprintf(
			"the taint is new and its time is %s, so pods with shorter tolerationSeconds are evicted at once; leave timeAdded out or set it to now",
			t.taint.TimeAdded.UTC().Format(time.RFC3339))})
	}
	return result, nil
}

func setTimes(w Write[resourceapi.ResourceSlice], _ Settings) (result Result, _ error) {
	for i, device := range taintedDevices(w.Object) {
		for j := range device.Taints {
			if device.Taints[j].TimeAdded == nil {
				device.Taints[j].TimeAdded = w.now()
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
	old, err := w.old()
	if err != nil || old == nil {
		return Result{}, err
	}
	past := rememberTaints(old)
	var added []placedTaint
	for i, device := range taintedDevices(w.Object) {
		for j := range device.Taints {
			taint := &device.Taints[j]
			stored := past.take(device.Name, *taint)
			if stored == nil {
				added = append(added, placedTaint{i, device.Name, j, taint})
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

// placedTaint is a taint and its position.
type placedTaint struct {
	deviceIndex int
	device      string
	index       int
	taint       *resourceapi.DeviceTaint
}

// path names the device as pkg/validate does: by its index where it has no name, and
// marked where the name could be taken for an index.
func (t placedTaint) path() string {
	return fmt.Sprintf("%s.taints[%d].timeAdded", itemPath("spec.devices", t.deviceIndex, t.device), t.index)
}

// itemPath is the place of an item in a list, as the rules write it: by its name, or by its index when it has none. A name
// that could be taken for an index is marked: spec.devices[name=0].
func itemPath(list string, index int, name string) string {
	switch {
	case name == "":
		name = strconv.Itoa(index)
	case strings.Trim(name, "0123456789") == "":
		name = "name=" + name
	}
	return list + "[" + name + "]"
}

func tainted(slice *resourceapi.ResourceSlice) bool {
	for range taintedDevices(slice) {
		return true
	}
	return false
}

// taintedDevices walks the devices with taints. It leaves out lists that are longer
// than any API server takes: the rules refuse them, and the work and the answer would
// have no bound.
func taintedDevices(slice *resourceapi.ResourceSlice) iter.Seq2[int, *resourceapi.Device] {
	return func(yield func(int, *resourceapi.Device) bool) {
		if len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevices {
			return
		}
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if n := len(device.Taints); n > 0 && n <= resourceapi.DeviceTaintsMaxLength && !yield(i, device) {
				return
			}
		}
	}
}

// filledIn reports whether a taint's time was set because it was missing: it is missing
// still, or it is newer than the stored one and close to now. See
// docs/decisions/0003-the-window-of-timeadded.md.
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
func staleTimes(added []placedTaint, past previousTaints) (warnings []Warning) {
	for _, a := range added {
		was := past.otherEffect(a.device, *a.taint)
		if was == "" {
			continue
		}
		warnings = append(warnings, Warning{
			Path: a.path(),
			Message: fmt.Sprintf("the effect changed from %s to %s and the time stayed %s, so tolerationSeconds count from then; leave timeAdded out or set it to now",
				was, a.taint.Effect, a.taint.TimeAdded.UTC().Format(time.RFC3339)),
		})
	}
	return warnings
}
