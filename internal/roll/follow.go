package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// follow takes a node one state further, if it can.
func (w *work) follow(n *v1alpha1.RollNode) {
	w.leave(n)
	node := w.Nodes[n.Name]
	switch n.State {
	case v1alpha1.RollDraining:
		w.draining(n, node)
	case v1alpha1.RollReplacing:
		w.replacing(n, node)
	case v1alpha1.RollWorking:
		w.working(n, node)
	case v1alpha1.RollPublishing:
		w.publishing(n, node)
	case v1alpha1.RollProving:
		w.proving(n, node)
	case v1alpha1.RollRestoring:
		if text := w.unhealthy(node); text != "" {
			w.fail(n, text)
		} else if w.restore(n, node) {
			_, text, _ := difference(n.Pools, node.Pools)
			w.enter(n, v1alpha1.RollDone)
			w.note(n, text)
			n.CompletionTime = n.Since
			n.Pools, n.Replaced = nil, nil // a status has room for those of nodes in work
		}
	case v1alpha1.RollSkipped, v1alpha1.RollUndone, v1alpha1.RollGone:
		w.takeBack(n, node)
	case v1alpha1.RollDone:
		w.watch(n, node)
	case v1alpha1.RollWaiting:
		if w.Roll.Spec.Undo { // the roll has begun with it before, and was continued
			w.restore(n, node)
		}
	}
	switch {
	case n.State != v1alpha1.RollDraining:
	case w.rests():
		n.Since = nil // its time begins again when pods are evicted again
	case n.Since == nil:
		n.Since = reconcile.Stamp(w.Now)
	}
	if limit := timeout(w.Roll, n.State); limit > 0 && w.Lasts(w.Now, n.Since, limit) && !w.settles(n, node) {
		w.fail(n, fmt.Sprintf("not done after %s: %s", limit, n.Message))
	}
	if n.State == v1alpha1.RollFailed {
		w.stopDrain(n)
		w.hold(v1alpha1.HeldNodeFailed, fmt.Sprintf("node %s, %s: %s; continue, skip the node, or undo", n.Name, n.FailedIn, n.Message))
	}
}

// rests reports whether drains evict no pods for now, so that their time does not count.
func (w *work) rests() bool { return w.Roll.Spec.Paused || w.closed() != "" }

// leave ends the work on a node that is gone, that is left out, or that the roll takes back, and
// takes up one that is no longer left out.
func (w *work) leave(n *v1alpha1.RollNode) {
	_, exists := w.Nodes[n.Name]
	skipped, open := slices.Contains(w.Roll.Spec.Skip, n.Name), n.State == v1alpha1.RollWaiting || InWork(n.State)
	switch {
	case open && !exists:
		w.enter(n, v1alpha1.RollGone)
		w.note(n, "the node no longer exists")
	case open && skipped:
		w.enter(n, v1alpha1.RollSkipped)
	case InWork(n.State) && w.Roll.Spec.Undo:
		w.enter(n, v1alpha1.RollUndone)
	case n.State == v1alpha1.RollUndone && !w.Roll.Spec.Undo && !skipped && w.free(n),
		n.State == v1alpha1.RollSkipped && !skipped && w.Status.CompletionTime == nil && w.free(n):
		*n = v1alpha1.RollNode{Name: n.Name, State: v1alpha1.RollWaiting}
	case n.State == v1alpha1.RollUndone && skipped:
		w.enter(n, v1alpha1.RollSkipped)
	}
}

// free reports whether nothing of the roll is left on a node.
func (w *work) free(n *v1alpha1.RollNode) bool {
	node := w.Nodes[n.Name]
	return w.drains[DrainName(w.Roll.Name, n.Name)] == nil && node.CordonedBy != w.Roll.Name && !node.Proof.Exists
}

// restore takes back what the roll has done to a node, and reports whether nothing is left.
func (w *work) restore(n *v1alpha1.RollNode, node Node) bool {
	if node.Proof.Exists {
		w.Clear = append(w.Clear, n.Name)
	}
	if d := w.drains[DrainName(w.Roll.Name, n.Name)]; d != nil {
		w.Delete = append(w.Delete, d)
	}
	if node.CordonedBy == w.Roll.Name {
		w.Uncordon = append(w.Uncordon, n.Name)
	}
	free := w.free(n)
	switch {
	case n.State == v1alpha1.RollGone: // its message says why
	case free:
		n.Message = ""
	default:
		w.note(n, node.Refused)
	}
	return free
}

// draining waits until no claim holds a device of the node.
func (w *work) draining(n *v1alpha1.RollNode, node Node) {
	d := w.drains[n.Drain]
	switch {
	case d == nil && n.DrainUID != "":
		w.fail(n, "DeviceDrain "+n.Drain+" was deleted, which lifts the cordon")
		return
	case d == nil:
		if len(node.Devices) == 0 {
			w.note(n, "no device of the node is published")
			return
		}
		w.create(n, node)
		w.note(n, node.Refused)
		return
	}
	n.DrainUID = d.UID
	if !w.cordoned(n, node) {
		return
	}
	w.runDrain(n, d)
	blocked := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainBlocked)
	switch {
	case meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainFailed):
		w.fail(n, "DeviceDrain "+d.Name+" has failed: "+meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainFailed).Message)
	case meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainDrained) && used(node) == "":
		if w.Roll.Spec.NodeWork != nil {
			n.Pools = renewed(n.Pools, node.Pools)
			w.enter(n, v1alpha1.RollWorking)
			return
		}
		if node.PodsUnknown != "" {
			w.note(n, node.PodsUnknown)
			return
		}
		n.Pools = renewed(n.Pools, node.Pools)
		w.replace(n, func(Pod) bool { return true })
		w.enter(n, v1alpha1.RollReplacing)
	case blocked != nil && blocked.Status == "True":
		w.note(n, blocked.Reason+": "+blocked.Message)
	case len(node.Hit.Claims) == 0 && len(node.Prepared) > 0:
		w.note(n, used(node))
	default:
		w.note(n, plural.Of(len(node.Hit.Pods), "pod")+" left")
	}
}

// cordoned cordons a node for work on it, and reports whether the roll may work on the node: no
// user has uncordoned it.
func (w *work) cordoned(n *v1alpha1.RollNode, node Node) bool {
	switch {
	case w.Roll.Spec.NodeWork == nil:
	case node.CordonedBy == w.Roll.Name && node.Unschedulable:
		n.Cordoned = true
	case n.Cordoned:
		w.fail(n, "the node was uncordoned while the roll works on it")
		return false
	case !node.Unschedulable:
		w.Cordon = append(w.Cordon, n.Name)
		w.note(n, node.Refused)
		return false
	}
	return true
}

// runDrain pauses the drain of a paused roll, and resumes it.
func (w *work) runDrain(n *v1alpha1.RollNode, d *v1alpha1.DeviceDrain) {
	if w.Roll.Spec.Paused {
		w.stopDrain(n)
		return
	}
	if d.Annotations[v1alpha1.PausedByAnnotation] == w.Roll.Name {
		resumed := d.DeepCopy()
		resumed.Spec.Paused = false
		delete(resumed.Annotations, v1alpha1.PausedByAnnotation)
		w.Update = append(w.Update, resumed)
	}
}

// stopDrain pauses the drain of a node, so that it evicts no more pods.
func (w *work) stopDrain(n *v1alpha1.RollNode) {
	d := w.drains[n.Drain]
	if d == nil || d.Spec.Paused || d.Status.CompletionTime != nil {
		return
	}
	paused := d.DeepCopy()
	paused.Spec.Paused = true
	metav1.SetMetaDataAnnotation(&paused.ObjectMeta, v1alpha1.PausedByAnnotation, w.Roll.Name)
	w.Update = append(w.Update, paused)
}

// replacing deletes the pods of the driver, or waits for an operator to do so, while no consumer is
// left, and waits for the new ones.
func (w *work) replacing(n *v1alpha1.RollNode, node Node) {
	w.WakeAt(w.Now.Add(poll))
	if node.PodsUnknown != "" {
		w.note(n, node.PodsUnknown)
		return
	}
	if !node.Ready {
		w.note(n, "the node is not Ready")
		return
	}
	var previous, ready []Pod
	var texts []string
	for _, pod := range node.Pods {
		switch {
		case slices.Contains(n.Replaced, pod.UID):
			previous = append(previous, pod)
		case w.unstable(pod) == "":
			ready = append(ready, pod)
		default:
			texts = append(texts, w.unstable(pod))
		}
	}
	if len(previous) > 0 {
		n.Pools = renewed(n.Pools, node.Pools)
		w.dismiss(n, node, previous)
		return
	}
	if need := max(len(n.Replaced), 1); len(ready) < need || len(texts) > 0 {
		if len(texts) == 0 {
			texts = []string{fmt.Sprintf("waits for %s of the driver", plural.Of(need-len(ready), "new pod"))}
		}
		w.note(n, strings.Join(texts, "; "))
		return
	}
	w.enter(n, v1alpha1.RollPublishing)
	n.ReadySince = n.Since
}

// dismiss lets previous pods of the driver go.
func (w *work) dismiss(n *v1alpha1.RollNode, node Node, previous []Pod) {
	switch {
	case w.drains[n.Drain] == nil:
		w.fail(n, "DeviceDrain "+n.Drain+" was deleted, which lifts the cordon")
	case used(node) != "":
		w.note(n, used(node))
	case w.Roll.Spec.DriverPods.Replace == v1alpha1.ReplaceWait:
		w.note(n, "waits until an operator replaces pod "+previous[0].String())
	default:
		for _, pod := range previous {
			if !pod.Deleting {
				w.DeletePods = append(w.DeletePods, pod)
			}
		}
		w.note(n, cmp.Or(node.Refused, "pod "+previous[0].String()+" ends"))
	}
}

// used is why the driver of a node is needed: a claim has a device, or the kubelet has to unprepare one.
func used(node Node) string {
	switch {
	case len(node.Hit.Claims) > 0:
		return plural.Of(len(node.Hit.Claims), "claim") + " got a device in spite of the cordon: " + node.Hit.Claims[0].String()
	case len(node.Prepared) > 0:
		return plural.Of(len(node.Prepared), "claim") + " with devices outside the drain must be unprepared: " + node.Prepared[0].String()
	}
	return ""
}

// working waits until the work on the node is done.
func (w *work) working(n *v1alpha1.RollNode, node Node) {
	// The end of a command can be the request of a reboot: what is published before it is no answer. A condition or an
	// annotation says that the reboot is over, and what was published after it counts.
	if work := w.Roll.Spec.NodeWork; work.Condition == nil && work.Annotation == nil {
		n.Pools = renewed(n.Pools, node.Pools)
	}
	switch {
	case w.drains[n.Drain] == nil:
		w.fail(n, "DeviceDrain "+n.Drain+" was deleted, which lifts the cordon")
	case !w.cordoned(n, node):
	case node.WorkDone || slices.Contains(w.Roll.Spec.WorkDone, n.Name):
		w.enter(n, v1alpha1.RollPublishing)
		n.ReadySince = n.Since
	case used(node) != "":
		w.note(n, used(node))
	default:
		w.note(n, "no claim holds a device: the work can be done")
	}
}

// publishing waits until the devices are published as before, and before a proof only those that the drain has.
func (w *work) publishing(n *v1alpha1.RollNode, node Node) {
	if w.drains[n.Drain] == nil {
		w.fail(n, "DeviceDrain "+n.Drain+" was deleted, which lifts the cordon")
		return
	}
	fewer, text, changed := difference(n.Pools, node.Pools)
	early := w.early(n, node)
	if early != "" {
		text = strings.TrimPrefix(text+"; "+early, "; ")
	}
	ill := w.unhealthy(node)
	switch {
	case ill != "":
		n.ReadySince = nil
	case n.ReadySince == nil:
		n.ReadySince = reconcile.Stamp(w.Now)
	}
	switch {
	case ill != "":
		w.note(n, ill)
	case node.Incomplete != "":
		w.note(n, "not all slices of pool "+node.Incomplete+" are published")
	case fewer > 0 && !n.AcceptDevices:
		w.note(n, text)
		if w.Lasts(w.Now, n.ReadySince, missing) {
			w.fail(n, text+"; continue to accept that")
			n.MissingDevices = fewer
		}
	case early != "":
		w.fail(n, text+"; continue to accept that")
	case !changed && !w.Lasts(w.Now, n.ReadySince, unchangedFor(w.Roll)):
		w.note(n, "waits for the driver to publish its devices")
	case w.Roll.Spec.Proof != nil && node.Proof.Exists:
		w.Clear = append(w.Clear, n.Name) // it is of an earlier try
	case w.Roll.Spec.Proof != nil:
		w.enter(n, v1alpha1.RollProving)
	default:
		w.enter(n, v1alpha1.RollRestoring)
	}
}

// early says which devices pods can use before the proof: those that are published under names that the drain does not
// have.
func (w *work) early(n *v1alpha1.RollNode, node Node) string {
	if w.Roll.Spec.Proof == nil || n.AcceptDevices {
		return ""
	}
	drained := drain.Names(w.drains[n.Drain])
	var names []string
	for _, device := range node.Devices {
		if !slices.Contains(drained, device) {
			names = append(names, device.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return are(len(names), "device") + " not in the drain, so that pods can use them before the proof: " + plural.List(names, 4, len(names))
}

// difference compares what is published with what was: how many devices are missing, a text, and
// whether anything was published since.
func difference(before, now []v1alpha1.RollPool) (fewer int32, text string, changed bool) {
	type pool struct{ driver, name string }
	is, was := map[pool]v1alpha1.RollPool{}, map[pool]bool{}
	for _, p := range now {
		is[pool{p.Driver, p.Name}] = p
	}
	var texts []string
	for _, p := range before {
		was[pool{p.Driver, p.Name}] = true
		current := is[pool{p.Driver, p.Name}]
		changed = changed || current.Generation != p.Generation || current.Devices != p.Devices
		if current.Devices != p.Devices {
			texts = append(texts, fmt.Sprintf("pool %s/%s has %s, and had %d", p.Driver, p.Name, plural.Of(int(current.Devices), "device"), p.Devices))
		}
		fewer += p.Devices - current.Devices
	}
	for _, p := range now {
		if !was[pool{p.Driver, p.Name}] {
			changed = true
			fewer -= p.Devices
			texts = append(texts, fmt.Sprintf("pool %s/%s is new and has %s", p.Driver, p.Name, plural.Of(int(p.Devices), "device")))
		}
	}
	return max(fewer, 0), strings.Join(texts, "; "), changed
}

// renewed are pools as they were before, with what the previous driver has published since: that says nothing about
// the next one. Devices that have gone meanwhile are missed still.
func renewed(before, now []v1alpha1.RollPool) []v1alpha1.RollPool {
	all := slices.Clone(before)
	for _, p := range now {
		switch i := slices.IndexFunc(all, func(b v1alpha1.RollPool) bool { return b.Driver == p.Driver && b.Name == p.Name }); {
		case i >= 0:
			all[i].Generation, all[i].Devices = p.Generation, max(all[i].Devices, p.Devices)
		case len(all) < MaxPools:
			all = append(all, p)
		}
	}
	return all
}

// proving waits until the pod of the proof has succeeded.
func (w *work) proving(n *v1alpha1.RollNode, node Node) {
	w.WakeAt(w.Now.Add(poll))
	switch proof := node.Proof; {
	case w.drains[n.Drain] == nil:
		w.fail(n, "DeviceDrain "+n.Drain+" was deleted, which lifts the cordon")
	case w.early(n, node) != "":
		w.fail(n, w.early(n, node)+"; continue to accept that")
	case proof.Foreign != "":
		w.note(n, proof.Foreign)
	case !proof.Exists, proof.Half:
		w.Prove = append(w.Prove, n.Name)
		w.note(n, node.Refused)
	case slices.Contains(n.Replaced, proof.UID):
		w.Clear = append(w.Clear, n.Name)
	case proof.Phase == corev1.PodSucceeded && w.unhealthy(node) != "":
		w.note(n, w.unhealthy(node))
	case proof.Phase == corev1.PodSucceeded:
		w.enter(n, v1alpha1.RollRestoring)
	case proof.Phase == corev1.PodFailed:
		w.fail(n, "the proof has failed: "+proof.Message)
	default:
		w.note(n, "the proof runs: "+proof.Message)
	}
}
