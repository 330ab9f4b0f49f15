package reaction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// Decide decides what comes next in a reaction.
func Decide(in Input) Decision {
	w := &work{Input: in, known: map[v1alpha1.DeviceName]*v1alpha1.ReactionDevice{}, drains: map[v1alpha1.DeviceName]*v1alpha1.DeviceDrain{}}
	in.Reaction.Status.DeepCopyInto(&w.Status)
	w.Status.ObservedGeneration = in.Reaction.Generation
	if in.Unknown != "" {
		w.conditions().unknown(in.Unknown)
		return w.Decision
	}
	w.read()
	w.gone()
	for _, name := range w.names() {
		if w.observe(w.known[name]); w.known[name] != nil {
			w.follow(w.known[name])
		}
	}
	over := w.brake()
	if over == "" {
		w.resume()
		over = w.begin()
	} else {
		w.pause()
	}
	w.report(over)
	return w.Decision
}

// work is the state of one Decide call.
type work struct {
	Input
	Decision
	// known are the devices of the status, drains those of the reaction, by device.
	known  map[v1alpha1.DeviceName]*v1alpha1.ReactionDevice
	drains map[v1alpha1.DeviceName]*v1alpha1.DeviceDrain
	// began are the drains that this step creates.
	began []guard.Start
	// reason and message are those of the condition Paused.
	reason, message string
	// acknowledged is what the reaction acknowledges, wrong what is wrong with that.
	acknowledged *guard.Ceiling
	wrong        string
}

// read collects the devices that the status lists, that are sick, and that have a drain of the
// reaction.
func (w *work) read() {
	for i := range w.Status.Devices {
		w.known[w.Status.Devices[i].DeviceName] = &w.Status.Devices[i]
	}
	for _, drain := range w.Drains {
		if len(drain.Spec.Devices) != 1 || drain.DeletionTimestamp != nil {
			continue
		}
		w.drains[drain.Spec.Devices[0]] = drain
		w.add(drain.Spec.Devices[0])
	}
	for name := range w.Sick {
		w.add(name)
	}
	var err error
	if w.acknowledged, err = guard.Acknowledged(w.Reaction.Annotations); err != nil {
		w.wrong = fmt.Sprintf("the annotation %s is not used: %v", v1alpha1.AcknowledgementAnnotation, err)
	}
}

func (w *work) add(name v1alpha1.DeviceName) {
	if w.known[name] == nil {
		w.known[name] = &v1alpha1.ReactionDevice{DeviceName: name}
	}
}

// names are the known devices in their order.
func (w *work) names() []v1alpha1.DeviceName {
	return slices.SortedFunc(maps.Keys(w.known), compareNames)
}

func compareNames(a, b v1alpha1.DeviceName) int {
	return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Device, b.Device))
}

// observe records when a device became sick or healthy. A device without a slice keeps its drain:
// its driver restarts, or its node is away. So does a device whose health no pod reports any more.
func (w *work) observe(d *v1alpha1.ReactionDevice) {
	cause, sick := w.Sick[d.DeviceName]
	switch {
	case sick:
		if d.State == v1alpha1.ReactionAcknowledged && d.Cause == "" {
			d.State = v1alpha1.ReactionSick // it was acknowledged without this cause
		}
		if d.SickSince == nil {
			w.changed(d, d.HealthySince != nil)
			d.SickSince, d.HealthySince = reconcile.Stamp(w.Now), nil
		}
		d.Cause = condition.Bounded(cause, 512)
	case w.Published(d.DeviceName):
		if d.HealthySince == nil && (w.Healthy == nil || w.Healthy(d.DeviceName)) {
			w.changed(d, d.SickSince != nil)
			d.SickSince, d.HealthySince = nil, reconcile.Stamp(w.Now)
		}
	case w.drains[d.DeviceName] != nil:
		if w.Healthy == nil {
			d.HealthySince = nil // it counts from when a slice has the device again
		}
	case d.State == v1alpha1.ReactionAcknowledged && d.HealthySince == nil:
		d.SickSince, d.HealthySince = nil, reconcile.Stamp(w.Now)
	case d.State != v1alpha1.ReactionAcknowledged:
		delete(w.known, d.DeviceName)
	}
}

// changed counts a change of a device.
func (w *work) changed(d *v1alpha1.ReactionDevice, is bool) {
	if is {
		d.Changes, d.LastChange = min(w.changes(d)+1, 2*flapping-1), reconcile.Stamp(w.Now)
	}
}

// changes are those that count still: each stretch of calm takes one back.
func (w *work) changes(d *v1alpha1.ReactionDevice) int32 {
	if d.LastChange == nil {
		return 0
	}
	return max(d.Changes-int32(w.Now.Sub(d.LastChange.Time)/calm), 0)
}

func (w *work) flaps(d *v1alpha1.ReactionDevice) bool { return w.changes(d) >= flapping }

// follow sets the state of a device by its drain, and ends the drain where its time is over.
func (w *work) follow(d *v1alpha1.ReactionDevice) {
	drain := w.drains[d.DeviceName]
	if drain != nil {
		w.followDrain(d, drain)
		return
	}
	if d.Restart = nil; d.Proof != nil && d.Proof.State != v1alpha1.ProofPassed {
		d.Proof = nil // its Job goes with the drain
	}
	switch {
	case d.DrainUID != "":
		w.acknowledge(d, "DeviceDrain "+d.Drain+" was deleted")
	case d.State == v1alpha1.ReactionAcknowledged:
		if w.Lasts(w.Now, d.HealthySince, after(w.Reaction)) {
			d.State, d.Message = v1alpha1.ReactionHealthy, ""
		}
	case d.SickSince != nil && w.Lasts(w.Now, d.SickSince, standsFor(w.Reaction)):
		d.State = v1alpha1.ReactionWaiting // a drain that was decided and does not exist is decided again
		d.Drain, d.Message = "", ""
	case d.SickSince != nil:
		d.State, d.Drain, d.Message = v1alpha1.ReactionSick, "", ""
	default:
		d.State, d.Drain, d.Message = v1alpha1.ReactionHealthy, "", ""
	}
}

func (w *work) followDrain(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain) {
	if p := d.Proof; p != nil && p.Job != jobName(w.Reaction.Name, drain, p.Attempt) {
		d.Proof = nil // it was that of an earlier drain
	}
	if d.DrainUID != "" && d.DrainUID != drain.UID {
		d.Restart = nil
	}
	was := d.State
	d.Drain, d.DrainUID, d.Message = drain.Name, drain.UID, ""
	d.State = v1alpha1.ReactionDraining
	switch failed := meta.FindStatusCondition(drain.Status.Conditions, v1alpha1.DrainFailed); {
	case failed != nil && failed.Status == metav1.ConditionTrue:
		d.Message = condition.Bounded("the drain has failed: "+failed.Message, 1024)
	case drain.Status.CompletionTime != nil:
		d.State = v1alpha1.ReactionDrained
	}
	if reason, is := drain.Annotations[v1alpha1.AcknowledgedAnnotation]; is {
		w.Delete = append(w.Delete, Deletion{drain, "acknowledged: " + reason})
		w.acknowledge(d, "acknowledged: "+reason)
		return
	}
	if was == v1alpha1.ReactionAcknowledged {
		d.HealthySince = nil // the drain was not deleted, so the device is not repaired
	}
	if d.State == v1alpha1.ReactionDrained {
		w.prove(d, drain)
	}
	w.restart(d)
	w.endDrain(d, drain)
}

// endDrain lifts the cordon of a device that is healthy and has passed its proof.
func (w *work) endDrain(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain) {
	if !w.acts() || w.Reaction.Spec.End.Uncordon != v1alpha1.UncordonWhenHealthy || !w.Published(d.DeviceName) || !w.Lasts(w.Now, d.HealthySince, after(w.Reaction)) {
		return
	}
	if w.flaps(d) {
		d.Message = "flapping: the cordon stays until it is acknowledged, or the device keeps its state for up to an hour"
		return
	}
	if !w.proven(d) {
		d.Message = "the cause has gone; the cordon stays until the device passes its proof, or is acknowledged"
		return
	}
	because := fmt.Sprintf("the cause has been gone for %s", after(w.Reaction))
	if d.Proof != nil {
		because += ", and the proof passed: " + d.Proof.Message
	}
	w.Delete = append(w.Delete, Deletion{drain, because})
	d.State, d.Drain, d.DrainUID = v1alpha1.ReactionHealthy, "", ""
}

// acknowledge leaves a device alone until its cause has gone. If it has gone already, no cause is
// acknowledged. A published device that nothing reports as sick counts as healthy from then on: no pod
// reports the health of one that was drained.
func (w *work) acknowledge(d *v1alpha1.ReactionDevice, message string) {
	d.State, d.Drain, d.DrainUID, d.Message = v1alpha1.ReactionAcknowledged, "", "", condition.Bounded(message, 1024)
	if _, sick := w.Sick[d.DeviceName]; !sick && d.HealthySince == nil && w.Published(d.DeviceName) {
		d.SickSince, d.HealthySince = nil, reconcile.Stamp(w.Now)
	}
	if d.SickSince == nil {
		d.Cause = ""
	}
}

// acts reports whether the reaction writes drains.
func (w *work) acts() bool { return w.Reaction.Spec.Mode == v1alpha1.ReactionAct }
