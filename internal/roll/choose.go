package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// choose begins with as many further nodes as the roll may have in work.
func (w *work) choose() {
	spec := w.Roll.Spec
	switch {
	case w.reason != "":
		return
	case spec.Undo:
		w.hold(v1alpha1.HeldUndone, w.undone())
	case spec.Paused:
		w.hold(v1alpha1.HeldPaused, "spec.paused is true")
	case w.count(v1alpha1.RollWaiting) == 0:
	case w.canary():
		if done := w.count(v1alpha1.RollDone); done >= spec.Canary {
			w.hold(v1alpha1.HeldCanary, fmt.Sprintf("%s done: continue the roll if all is well", are(int(done), "node")))
		}
	default:
		w.begin()
	}
}

// canary reports whether the first nodes of the roll are done or in work, and the others wait.
func (w *work) canary() bool {
	most := w.Roll.Spec.Canary
	return most > 0 && !w.Status.CanaryAcknowledged && w.count(append(inWork(), v1alpha1.RollDone)...) >= most
}

// begin begins with nodes in their order, until the roll has enough in work.
func (w *work) begin() {
	if closed := w.closed(); closed != "" {
		w.hold(v1alpha1.HeldWindow, closed)
		return
	}
	most, all := w.inWorkByGroup()
	waits := ""
	for _, n := range w.order(all) {
		node := w.Nodes[n.Name]
		if all == v1alpha1.RollAtATimeMax || w.canary() {
			return
		}
		if most[node.Group] >= int(ptr.Deref(w.Roll.Spec.AtATime, 1)) {
			continue
		}
		if why := unready(node); why != "" {
			w.note(n, why)
			waits = cmp.Or(waits, "node "+n.Name+": "+why)
			continue
		}
		if over := w.check(n, node); over != "" {
			w.note(n, over)
			w.hold(v1alpha1.HeldGuard, over)
			return
		}
		most[node.Group]++
		all++
		n.Drain, n.StartTime = DrainName(w.Roll.Name, n.Name), cmp.Or(n.StartTime, reconcile.Stamp(w.Now))
		if n.Pools == nil {
			n.Pools = node.Pools
		}
		w.enter(n, v1alpha1.RollDraining)
		w.create(n, node)
		if w.Roll.Spec.NodeWork != nil && !node.Unschedulable {
			w.Cordon = append(w.Cordon, n.Name)
		}
	}
	if all == 0 && waits != "" {
		w.hold(v1alpha1.HeldNotReady, waits)
	}
}

// inWorkByGroup counts the nodes in work, those that have failed among them, by the value of the label.
func (w *work) inWorkByGroup() (by map[string]int, all int) {
	by = map[string]int{}
	for i := range w.Status.Nodes {
		if n := &w.Status.Nodes[i]; InWork(n.State) {
			by[w.Nodes[n.Name].Group]++
			all++
		}
	}
	return by, all
}

// order are the nodes that wait: those that are ready first, then those with the fewest pods. Of the first
// of these, those are first whose pods land again.
func (w *work) order(inWork int) (all []*v1alpha1.RollNode) {
	for i := range w.Status.Nodes {
		if n := &w.Status.Nodes[i]; n.State == v1alpha1.RollWaiting {
			n.Message = ""
			all = append(all, n)
		}
	}
	last := func(n *v1alpha1.RollNode) int { return waits(w.Nodes[n.Name]) }
	slices.SortFunc(all, func(a, b *v1alpha1.RollNode) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(len(w.Nodes[a.Name].Hit.Pods), len(w.Nodes[b.Name].Hit.Pods)), strings.Compare(a.Name, b.Name))
	})
	if w.Roll.Spec.PerLabel != "" || inWork < int(ptr.Deref(w.Roll.Spec.AtATime, 1)) {
		w.byLanding(all)
	}
	return all
}

// foreseen is for how many nodes a roll asks whether their pods land again, since each takes a simulation.
const foreseen = 8

// byLanding puts those of the first nodes last whose pods do not land again, as far as that is known. A node
// without pods strands none.
func (w *work) byLanding(all []*v1alpha1.RollNode) {
	if w.Input.Stranded == nil || len(all) < 2 {
		return
	}
	first, stranded := all[:min(len(all), foreseen)], map[string]int{}
	for _, n := range first {
		if node := w.Nodes[n.Name]; unready(node) == "" && len(node.Hit.Pods) > 0 {
			stranded[n.Name] = w.Input.Stranded(n.Name)
		}
	}
	slices.SortStableFunc(first, func(a, b *v1alpha1.RollNode) int {
		return cmp.Or(cmp.Compare(waits(w.Nodes[a.Name]), waits(w.Nodes[b.Name])), cmp.Compare(stranded[a.Name], stranded[b.Name]))
	})
}

// waits is 1 for a node that the roll cannot begin with.
func waits(node Node) int {
	if unready(node) != "" {
		return 1
	}
	return 0
}

// unready is why a roll cannot begin with a node.
func unready(node Node) string {
	switch {
	case node.Busy != "":
		return "DeviceRoll " + node.Busy + " works on it"
	case !node.Ready:
		return "it is not Ready"
	case node.Incomplete != "":
		return "not all slices of pool " + node.Incomplete + " are published"
	case len(node.Devices) == 0:
		return "none of its devices is published"
	case len(node.Drained()) > v1alpha1.DrainDevicesMax:
		return fmt.Sprintf("it has %s, and a drain has at most %d", plural.Of(len(node.Drained()), "device"), v1alpha1.DrainDevicesMax)
	}
	return ""
}

// closed is why no pods are evicted now: no window is open.
func (w *work) closed() string {
	when, err := windows.At(w.Roll.Spec.Drain.Windows, w.Now)
	switch {
	case err != nil:
		return "spec.drain.windows: " + err.Error()
	case when.Open:
	case when.Until.IsZero():
		return "no window of the week is open"
	default:
		w.WakeAt(when.Until)
		return "no window is open before " + when.Until.UTC().Format(time.RFC3339)
	}
	return ""
}

// check asks the thresholds of the guard about the drain of a node. It returns why that may not begin.
func (w *work) check(n *v1alpha1.RollNode, node Node) string {
	acknowledged, wrong := w.acknowledged()
	over, until := w.Window.Refuse(w.Now, guard.Step{
		Object: w.object(n), Does: "the drain of node " + n.Name, Hit: node.Hit, PerMinute: int(ptr.Deref(w.Roll.Spec.Drain.EvictionsPerMinute, 0)), Acknowledged: acknowledged, Annotate: "the roll",
		Begins: windows.Begins(w.Roll.Spec.Drain.Windows, w.Now),
	}, w.Begun.With(w.began))
	if over != "" && wrong != "" {
		over += "; " + wrong
	}
	if !until.IsZero() {
		w.WakeAt(until)
	}
	return over
}

func (w *work) object(n *v1alpha1.RollNode) string {
	return v1alpha1.DeviceDrainKind + " " + DrainName(w.Roll.Name, n.Name)
}

// hit is what the drain of a node affects at its rate.
func (w *work) hit(node Node) guard.Hit {
	return node.Hit.Pace(int(ptr.Deref(w.Roll.Spec.Drain.EvictionsPerMinute, 0)), w.Window.Length)
}

// create creates the drain of a node, which counts for those that begin after it.
func (w *work) create(n *v1alpha1.RollNode, node Node) {
	w.Create = append(w.Create, w.drainOf(n, node))
	w.began = append(w.began, guard.Start{Object: w.object(n), Time: w.Now, Hit: w.hit(node)})
}

func (w *work) drainOf(n *v1alpha1.RollNode, node Node) *v1alpha1.DeviceDrain {
	drain := &v1alpha1.DeviceDrain{
		ObjectMeta: metav1.ObjectMeta{Name: n.Drain, Labels: map[string]string{v1alpha1.RollLabel: w.Roll.Name}, Annotations: map[string]string{
			v1alpha1.OwnerAnnotation: v1alpha1.DeviceRollKind + "/" + w.Roll.Name, v1alpha1.ReasonAnnotation: "maintenance of node " + n.Name,
			v1alpha1.RollAnnotation: n.Name,
		}},
		Spec: w.Roll.Spec.Drain.Of(node.Drained()...),
	}
	// The garbage collector deletes it with the roll, which lifts the cordon.
	drain.OwnerReferences = OwnedBy(w.Roll)
	if ceiling, has := w.Roll.Annotations[v1alpha1.AcknowledgementAnnotation]; has {
		if _, wrong := w.acknowledged(); wrong == "" {
			drain.Annotations[v1alpha1.AcknowledgementAnnotation] = ceiling
		}
	}
	return drain
}
