package reaction

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// A scope is what a limit of the brake counts: a pool, a driver, or all devices, whose scope is
// empty.
type scope struct{ driver, pool string }

func (s scope) String() string {
	switch {
	case s.pool != "":
		return "in pool " + s.driver + "/" + s.pool
	case s.driver != "":
		return "of driver " + s.driver
	}
	return "in all"
}

func scopes(name v1alpha1.DeviceName) []scope {
	return []scope{{name.Driver, name.Pool}, {name.Driver, ""}, {}}
}

// limit is how many devices of a scope are out of use at a time.
func (w *work) limit(s scope) int {
	brake := w.Reaction.Spec.Brake
	switch {
	case s.pool != "":
		return int(ptr.Deref(brake.DevicesPerPool, 1))
	case s.driver != "":
		return max(w.DriverDevices[s.driver]*int(ptr.Deref(brake.PercentOfDriver, 10))/100, 1)
	}
	return int(ptr.Deref(brake.Devices, 10))
}

// brake returns why nothing begins: more devices are out of use than a limit or, for all devices
// of the reaction, the acknowledgement allows. A device counts as soon as it is sick, so that a
// storm is seen before the first drain.
func (w *work) brake() string {
	out := map[scope]int{{}: w.OtherReactions}
	devices := 0
	for _, d := range w.known {
		if d.Drain == "" && (d.SickSince == nil || d.State == v1alpha1.ReactionAcknowledged) {
			continue
		}
		devices++
		for _, s := range scopes(d.DeviceName) {
			out[s]++
		}
	}
	if w.acknowledged != nil && w.acknowledged.Devices != nil {
		if devices <= *w.acknowledged.Devices {
			return ""
		}
		return w.over(fmt.Sprintf("%s out of use, and %d acknowledged", plural.Of(devices, "device"), *w.acknowledged.Devices), devices)
	}
	for _, s := range slices.SortedFunc(maps.Keys(out), func(a, b scope) int {
		return compareNames(v1alpha1.DeviceName{Driver: a.driver, Pool: a.pool}, v1alpha1.DeviceName{Driver: b.driver, Pool: b.pool})
	}) {
		if most := w.limit(s); out[s] > most && devices > 0 {
			return w.over(fmt.Sprintf("%s %s out of use, and the brake allows %d", plural.Of(out[s], "device"), s, most), devices)
		}
	}
	return ""
}

// over names the remedy of a brake.
func (w *work) over(what string, devices int) string {
	text := fmt.Sprintf(`%s; if they are to be drained one after the other, annotate the reaction with %s: "devices<=%d"`, what, v1alpha1.AcknowledgementAnnotation, devices)
	if w.wrong != "" {
		text += "; " + w.wrong
	}
	w.reason, w.message = v1alpha1.PausedBrake, text
	return text
}

// pause pauses the drains of the reaction that evict. One that a user has resumed is left alone.
func (w *work) pause() {
	if !w.acts() {
		return
	}
	for _, name := range w.names() {
		drain := w.drains[name]
		if drain == nil || w.known[name].Drain == "" || drain.Spec.Paused || drain.Status.CompletionTime != nil || drain.Annotations[v1alpha1.PausedByAnnotation] != "" {
			continue
		}
		paused := drain.DeepCopy()
		paused.Spec.Paused = true
		metav1.SetMetaDataAnnotation(&paused.ObjectMeta, v1alpha1.PausedByAnnotation, w.Reaction.Name)
		w.Pause = append(w.Pause, paused)
	}
}

// resume resumes the drains that the reaction has paused.
func (w *work) resume() {
	if !w.acts() {
		return
	}
	for _, name := range w.names() {
		drain := w.drains[name]
		if drain == nil || w.known[name].Drain == "" || drain.Annotations[v1alpha1.PausedByAnnotation] != w.Reaction.Name {
			continue
		}
		resumed := drain.DeepCopy()
		resumed.Spec.Paused = w.Reaction.Spec.Then.CordonOnly
		delete(resumed.Annotations, v1alpha1.PausedByAnnotation)
		w.Resume = append(w.Resume, resumed)
	}
}
