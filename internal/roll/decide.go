package roll

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// Decide decides what comes next in a roll.
func Decide(in Input) Decision {
	w := &work{Input: in, drains: map[string]*v1alpha1.DeviceDrain{}}
	in.Roll.Status.DeepCopyInto(&w.Status)
	w.Status.ObservedGeneration = in.Roll.Generation
	if in.Unknown != "" {
		w.hold(v1alpha1.HeldUnknown, in.Unknown)
		w.report()
		return w.Decision
	}
	for _, d := range in.Drains {
		if d.DeletionTimestamp == nil {
			w.drains[d.Name] = d
		}
	}
	w.find()
	w.proceed()
	for i := range w.Status.Nodes {
		w.follow(&w.Status.Nodes[i])
	}
	w.choose()
	w.report()
	return w.Decision
}

// work is the state of one Decide call.
type work struct {
	Input
	Decision
	// drains are those of the roll that are not being deleted, by name.
	drains map[string]*v1alpha1.DeviceDrain
	// began are the drains that this step creates.
	began []guard.Start
	// ill is true if a node is done and not healthy.
	ill bool
	// reason and message are those of the condition Held.
	reason, message string
}

// hold keeps the first reason.
func (w *work) hold(reason, message string) {
	if w.reason == "" {
		w.reason, w.message = reason, message
	}
}

// find finds the nodes of a roll once, when it begins.
func (w *work) find() {
	if w.Status.StartTime != nil {
		return
	}
	names := slices.Clone(w.Selected)
	if named := w.Roll.Spec.Nodes; named != nil {
		for _, name := range named.Names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	switch {
	case w.Roll.Spec.Undo || w.Roll.Spec.Paused:
		return
	case len(names) == 0:
		w.hold(v1alpha1.HeldNodes, "no node that is selected has devices")
		return
	case len(names) > v1alpha1.RollNodesMax:
		w.hold(v1alpha1.HeldNodes, fmt.Sprintf("%s are selected, and a roll has at most %d: select them by a label", plural.Of(len(names), "node"), v1alpha1.RollNodesMax))
		return
	}
	w.Status.StartTime = reconcile.Stamp(w.Now)
	for _, name := range names {
		n := v1alpha1.RollNode{Name: name, State: v1alpha1.RollWaiting}
		if !slices.Contains(w.Selected, name) {
			n.State, n.Message = v1alpha1.RollGone, "the cluster has no such node with devices"
		}
		w.Status.Nodes = append(w.Status.Nodes, n)
	}
}

// proceed acts on a larger number in spec.continue: it tries again what has failed, or acknowledges
// the canary.
func (w *work) proceed() {
	if w.Roll.Spec.Continue <= w.Status.Continued {
		return
	}
	w.Status.Continued = w.Roll.Spec.Continue
	failed := false
	for i := range w.Status.Nodes {
		if n := &w.Status.Nodes[i]; n.State == v1alpha1.RollFailed {
			failed = true
			w.retry(n)
		}
	}
	if !failed && w.count(v1alpha1.RollDone) >= w.Roll.Spec.Canary {
		w.Status.CanaryAcknowledged = true
	}
}

// retry tries a node again that has failed, from the state on in which it did.
func (w *work) retry(n *v1alpha1.RollNode) {
	state := n.FailedIn
	if d := w.drains[n.Drain]; d != nil && state == v1alpha1.RollDraining && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainFailed) {
		w.Delete = append(w.Delete, d) // it evicts no pod any more
		delete(w.drains, n.Drain)
	}
	if w.drains[n.Drain] == nil && state != v1alpha1.RollRestoring { // the guard is asked again
		*n = v1alpha1.RollNode{Name: n.Name, State: v1alpha1.RollWaiting, StartTime: n.StartTime, Pools: n.Pools}
		return
	}
	if previous := n.Replaced; state == v1alpha1.RollReplacing && w.Nodes[n.Name].PodsUnknown == "" {
		w.replace(n, func(p Pod) bool { return !p.Ready || slices.Contains(previous, p.UID) })
	}
	if proof := w.Nodes[n.Name].Proof; state == v1alpha1.RollProving && proof.UID != "" {
		n.Replaced = []types.UID{proof.UID} // it ran before the repair, also if it has succeeded since
	}
	published := state == v1alpha1.RollPublishing || state == v1alpha1.RollProving
	n.AcceptDevices = n.AcceptDevices || n.MissingDevices > 0 || published && w.early(n, w.Nodes[n.Name]) != ""
	n.MissingDevices = 0
	n.Cordoned = false // it is cordoned again if a user has uncordoned it
	w.enter(n, state)
}

// replace notes which pods of the driver are to be replaced.
func (w *work) replace(n *v1alpha1.RollNode, is func(Pod) bool) {
	n.Replaced = nil
	for _, pod := range w.Nodes[n.Name].Pods {
		if is(pod) && len(n.Replaced) < 16 {
			n.Replaced = append(n.Replaced, pod.UID)
		}
	}
}

// enter brings a node into a state.
func (w *work) enter(n *v1alpha1.RollNode, state v1alpha1.RollState) {
	n.State, n.Since, n.FailedIn, n.Message = state, reconcile.Stamp(w.Now), "", ""
	w.WakeAt(w.Now)
}

// fail ends the work on a node, and holds the roll.
func (w *work) fail(n *v1alpha1.RollNode, message string) {
	in := n.State
	w.enter(n, v1alpha1.RollFailed)
	n.FailedIn = in
	w.note(n, message)
}

// note says why a node waits.
func (w *work) note(n *v1alpha1.RollNode, message string) {
	n.Message = condition.Bounded(message, 1024)
}

// count counts the nodes in a state.
func (w *work) count(states ...v1alpha1.RollState) (count int32) {
	for i := range w.Status.Nodes {
		if slices.Contains(states, w.Status.Nodes[i].State) {
			count++
		}
	}
	return count
}

// inWork are the states of nodes in work.
func inWork() []v1alpha1.RollState {
	return []v1alpha1.RollState{v1alpha1.RollDraining, v1alpha1.RollReplacing, v1alpha1.RollWorking, v1alpha1.RollPublishing, v1alpha1.RollProving, v1alpha1.RollRestoring}
}

// InWork reports whether a roll works on a node in a state, or has left it cordoned.
func InWork(state v1alpha1.RollState) bool {
	return state == v1alpha1.RollFailed || slices.Contains(inWork(), state)
}

// DrainName is the name of the drain of a node, and that of its proof: the roll and a hash.
func DrainName(roll, node string) string {
	sum := sha256.Sum256([]byte(node))
	return roll + "-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
}

// acknowledged is what the roll acknowledges, and what is wrong with that.
func (w *work) acknowledged() (ceiling *guard.Ceiling, wrong string) {
	ceiling, err := guard.Acknowledged(w.Roll.Annotations)
	if err != nil {
		return nil, fmt.Sprintf("the annotation %s is not used: %v", v1alpha1.AcknowledgementAnnotation, err)
	}
	return ceiling, ""
}
