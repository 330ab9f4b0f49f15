package roll

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// report writes counts and conditions.
func (w *work) report() {
	done, skipped := w.count(v1alpha1.RollDone), w.count(v1alpha1.RollSkipped, v1alpha1.RollGone)
	w.Status.Counts = v1alpha1.RollCounts{
		Nodes: int32(len(w.Status.Nodes)), Done: done, Skipped: skipped, InWork: w.count(inWork()...), Failed: w.count(v1alpha1.RollFailed),
	}
	progress := fmt.Sprintf("%d of %s done", done, plural.Of(len(w.Status.Nodes), "node"))
	var names []string
	for i := range w.Status.Nodes {
		if n := &w.Status.Nodes[i]; InWork(n.State) && n.State != v1alpha1.RollFailed {
			names = append(names, n.Name+" is "+string(n.State))
		}
	}
	if len(names) > 0 {
		w.set(v1alpha1.RollRolling, true, "InWork", progress+"; "+plural.List(names, 8, len(names)))
	} else {
		w.set(v1alpha1.RollRolling, false, "NoNodeInWork", progress)
	}
	if w.reason != "" {
		w.set(v1alpha1.RollHeld, true, w.reason, w.message)
	} else {
		w.set(v1alpha1.RollHeld, false, "NotHeld", "")
	}
	if w.Status.CompletionTime == nil && w.Status.StartTime != nil && int(done+skipped) == len(w.Status.Nodes) && !w.ill && w.allFree() {
		w.Status.CompletionTime = reconcile.Stamp(w.Now)
	}
	if w.Status.CompletionTime != nil {
		w.set(v1alpha1.RollCompleted, true, "AllNodes", progress)
	} else {
		w.set(v1alpha1.RollCompleted, false, "NodesLeft", progress)
	}
}

// allFree reports whether nothing of the roll is left on any node.
func (w *work) allFree() bool {
	for i := range w.Status.Nodes {
		if !w.free(&w.Status.Nodes[i]) {
			return false
		}
	}
	return true
}

// set sets a condition; its transition time changes only with its status.
func (w *work) set(kind string, is bool, reason, message string) {
	condition.Set(&w.Status.Conditions, w.Status.ObservedGeneration, w.Now, condition.Condition{Type: kind, Is: is, Reason: reason, Message: message})
}

// are is such as "1 node is" and "2 nodes are".
func are(n int, what string) string {
	verb := " are"
	if n == 1 {
		verb = " is"
	}
	return plural.Of(n, what) + verb
}

// Progress is a line about a roll, for people.
func Progress(r *v1alpha1.DeviceRoll) string {
	c := r.Status.Counts
	parts := []string{fmt.Sprintf("%d of %s done", c.Done, plural.Of(int(c.Nodes), "node"))}
	for i := range r.Status.Nodes {
		n := &r.Status.Nodes[i]
		if !InWork(n.State) || len(parts) > 8 {
			continue
		}
		text := n.Name + " " + string(n.State)
		if n.Message != "" {
			text += " (" + n.Message + ")"
		}
		parts = append(parts, text)
	}
	if held := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RollHeld); held != nil && held.Status == metav1.ConditionTrue && held.Reason != v1alpha1.HeldNodeFailed {
		parts = append(parts, "held by "+held.Reason+": "+held.Message)
	}
	if r.Status.ObservedGeneration == 0 {
		return "waiting for the controller"
	}
	return strings.Join(parts, "; ")
}
