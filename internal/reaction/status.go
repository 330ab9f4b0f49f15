package reaction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// report writes devices, counts and conditions.
func (w *work) report(over string) {
	w.Status.Counts = v1alpha1.ReactionCounts{}
	var devices []v1alpha1.ReactionDevice
	flaps := []string{}
	for _, name := range w.names() {
		d := *w.known[name]
		if d.SickSince != nil {
			w.Status.Counts.Sick++
		}
		switch d.State {
		case v1alpha1.ReactionHealthy:
			if !w.Published(name) || w.Lasts(w.Now, d.HealthySince, memory) {
				continue
			}
		case v1alpha1.ReactionSick, v1alpha1.ReactionWaiting:
			w.Status.Counts.Waiting++
		case v1alpha1.ReactionDraining:
			w.Status.Counts.Draining++
		case v1alpha1.ReactionDrained:
			w.Status.Counts.Drained++
		case v1alpha1.ReactionAcknowledged:
		}
		if over != "" && d.State == v1alpha1.ReactionWaiting && d.Message == "" {
			d.Message = "the reaction is paused"
		}
		if w.flaps(&d) {
			flaps = append(flaps, name.String())
		}
		devices = append(devices, d)
	}
	w.Status.Devices = most(devices)
	c := w.conditions()
	c.acting(w.Reaction.Spec.Mode)
	w.provenCondition(c)
	switch {
	case over == "":
		c.set(v1alpha1.ReactionPaused, false, "NotPaused", "")
	case w.acts():
		c.set(v1alpha1.ReactionPaused, true, w.reason, w.message)
	default:
		c.set(v1alpha1.ReactionPaused, false, "Observe", "in the mode Act, the reaction is paused: "+w.message)
	}
	if len(flaps) == 0 {
		c.set(v1alpha1.ReactionFlapping, false, "NotFlapping", "")
		return
	}
	c.set(v1alpha1.ReactionFlapping, true, "Flapping", fmt.Sprintf("%s changed between sick and healthy at least %d times, with less than 10 minutes between: %s",
		plural.Of(len(flaps), "device"), flapping, plural.List(flaps, 8, len(flaps))))
}

// most are the devices that the status has room for: those with a drain or a decision first, then
// sick ones, then those that were sick last.
func most(devices []v1alpha1.ReactionDevice) []v1alpha1.ReactionDevice {
	if len(devices) <= v1alpha1.ReactionDevicesMax {
		return devices
	}
	rank := func(d v1alpha1.ReactionDevice) int {
		switch d.State {
		case v1alpha1.ReactionDraining, v1alpha1.ReactionDrained, v1alpha1.ReactionAcknowledged:
			return 0
		case v1alpha1.ReactionHealthy:
			return 2
		}
		return 1
	}
	kept := slices.Clone(devices)
	slices.SortStableFunc(kept, func(a, b v1alpha1.ReactionDevice) int {
		if by := cmp.Compare(rank(a), rank(b)); by != 0 || rank(a) == 0 {
			return by
		}
		if rank(a) == 2 {
			return b.HealthySince.Compare(a.HealthySince.Time)
		}
		return a.SickSince.Compare(b.SickSince.Time)
	})
	kept = kept[:v1alpha1.ReactionDevicesMax]
	slices.SortFunc(kept, func(a, b v1alpha1.ReactionDevice) int { return compareNames(a.DeviceName, b.DeviceName) })
	return kept
}

func (w *work) conditions() conditions { return conditions{&w.Status, w.Now} }

// conditions sets the conditions of a status.
type conditions struct {
	status *v1alpha1.DeviceReactionStatus
	now    time.Time
}

func (c conditions) acting(mode v1alpha1.ReactionMode) {
	if mode == v1alpha1.ReactionAct {
		c.set(v1alpha1.ReactionActing, true, "Act", "")
		return
	}
	c.set(v1alpha1.ReactionActing, false, "Observe", "the mode is Observe: no drain is created")
}

// unknown says why it is not known which devices are sick.
func (c conditions) unknown(why string) { c.set(v1alpha1.ReactionActing, false, "Unknown", why) }

// drop removes a condition.
func (c conditions) drop(kind string) { meta.RemoveStatusCondition(&c.status.Conditions, kind) }

// set sets a condition; its transition time changes only with its status.
func (c conditions) set(kind string, is bool, reason, message string) {
	condition.Set(&c.status.Conditions, c.status.ObservedGeneration, c.now, condition.Condition{Type: kind, Is: is, Reason: reason, Message: message})
}
