package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

const (
	// minReadySeconds is the default of spec.minReadySeconds.
	minReadySeconds = 30
	// mostReady bounds how long a pod that restarts must be Ready: the kubelet forgets the restarts of a container
	// that has run for so long.
	mostReady = 10 * time.Minute
)

// unhealthy is why a node cannot be used: it is not Ready, or its driver is not. Empty is healthy.
func (w *work) unhealthy(node Node) string {
	switch {
	case !node.Ready:
		return "the node is not Ready"
	case w.Roll.Spec.DriverPods == nil:
		return ""
	case node.PodsUnknown != "":
		return node.PodsUnknown
	case len(node.Pods) == 0:
		return "no pod of the driver is on the node"
	}
	var texts []string
	for _, pod := range node.Pods {
		if text := w.unstable(pod); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// unstable is why a pod of a driver does not count as Ready. Each restart of a container asks for a longer time, so
// that a pod that crashes at intervals never counts.
func (w *work) unstable(pod Pod) string {
	switch {
	case pod.Deleting:
		return "pod " + pod.String() + " ends"
	case !pod.Ready:
		return "pod " + pod.String() + " is not ready: " + pod.Message
	}
	least := time.Duration(ptr.Deref(w.Roll.Spec.MinReadySeconds, minReadySeconds)) * time.Second
	least = min(least*time.Duration(1+min(pod.Restarts, 1000)), max(least, mostReady))
	ready := w.Now.Sub(pod.ReadySince)
	if ready >= least {
		return ""
	}
	w.WakeAt(pod.ReadySince.Add(least))
	text := fmt.Sprintf("pod %s is Ready for %s of %s", pod, ready.Truncate(time.Second), least)
	if pod.Restarts > 0 {
		text += ", after " + plural.Of(int(pod.Restarts), "restart")
	}
	return text
}

// settles reports whether a node in work has all pods of the driver Ready, and only not for long enough: its timeout is
// about becoming Ready.
func (w *work) settles(n *v1alpha1.RollNode, node Node) bool {
	return (n.State == v1alpha1.RollReplacing || n.State == v1alpha1.RollPublishing) && node.Ready && len(node.Pods) > 0 &&
		!slices.ContainsFunc(node.Pods, func(pod Pod) bool { return pod.Deleting || !pod.Ready }) && w.unhealthy(node) != ""
}

// watch holds the roll while a node is not healthy that is done.
func (w *work) watch(n *v1alpha1.RollNode, node Node) {
	if w.Status.CompletionTime != nil {
		return
	}
	if _, exists := w.Nodes[n.Name]; !exists {
		return
	}
	if text := w.unhealthy(node); text != "" {
		w.ill = true
		w.hold(v1alpha1.HeldNotReady, "node "+n.Name+" is Done, and "+text)
	}
}

// takeBack takes back what the roll has done to a node, and says so if that lets pods use a driver that is down.
func (w *work) takeBack(n *v1alpha1.RollNode, node Node) {
	before := n.Message
	switch free := w.restore(n, node); {
	case !free || node.Refused != "" || n.StartTime == nil:
	case n.CompletionTime != nil:
		n.Message = cmp.Or(n.Message, before)
	default:
		n.CompletionTime = reconcile.Stamp(w.Now)
		if text := w.unhealthy(node); text != "" && n.State != v1alpha1.RollGone {
			w.note(n, "the cordon is lifted, though "+text)
		}
	}
}

// undone is what the condition Held says of a roll that is taken back.
func (w *work) undone() string {
	texts := []string{"what the roll cordoned is taken back; it begins no node while spec.undo is true"}
	for i := range w.Status.Nodes {
		if n := &w.Status.Nodes[i]; n.State == v1alpha1.RollUndone && n.CompletionTime != nil && n.Message != "" && len(texts) < 8 {
			texts = append(texts, "node "+n.Name+": "+n.Message)
		}
	}
	return strings.Join(texts, "; ")
}
