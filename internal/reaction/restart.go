package reaction

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// restart names the pod of the driver that must restart before its taint goes, and decides to delete it
// where the reaction says so. The status has the UID of the pod before it is deleted, so that a
// controller that is killed deletes no second one.
func (w *work) restart(d *v1alpha1.ReactionDevice) {
	if d.State != v1alpha1.ReactionDrained || w.Reaction.Spec.When.Taint == nil || w.DriverPod == nil || !w.acts() {
		return
	}
	pod := w.DriverPod(d.DeviceName)
	used := w.used(d, pod)
	if d.SickSince == nil || !strings.HasSuffix(d.Cause, " of "+theDriver) || w.Reaction.Spec.Prove != nil && !w.proven(d) {
		return
	}
	if pod == nil && d.Restart != nil {
		d.Message = "pod " + d.Restart.Pod + " restarts"
		return
	}
	if pod == nil {
		d.Message = "no pod of the driver was found on the node by spec.end.driverPods"
		return
	}
	if d.Restart != nil && pod.UID == d.Restart.UID && pod.DeletionTimestamp == nil && used == "" {
		w.Restart = append(w.Restart, pod) // the deletion was refused, or the controller ended before it
	}
	name := pod.Namespace + "/" + pod.Name
	switch other := w.restarting(d); {
	case d.Restart != nil && d.Restart.UID != pod.UID && ready(pod):
		d.Message = fmt.Sprintf("pod %s was restarted as %s, and the cause remains", d.Restart.Pod, pod.Name)
	case d.Restart != nil && d.Restart.UID == pod.UID && pod.DeletionTimestamp == nil && used != "":
		d.Message = condition.Bounded("pod "+name+used, 1024)
	case d.Restart != nil && w.RestartRefused[pod.UID] != "":
		d.Message = condition.Bounded("pod "+name+" does not restart: "+w.RestartRefused[pod.UID], 1024)
	case d.Restart != nil:
		d.Message = "pod " + d.Restart.Pod + " restarts"
	case !w.Reaction.Spec.End.RestartDriver:
		d.Message = condition.Bounded("if the driver takes the taint back only when it restarts, restart pod "+name, 1024)
	case !w.Restarts:
		d.Message = condition.Bounded("restart pod "+name+": the controller has no right to do it (controller.reactions.restartDrivers in the values of the chart)", 1024)
	case used != "":
		d.Message = condition.Bounded("pod "+name+used, 1024)
	case other != "":
		d.Message = "waits until pod " + other + " has restarted"
	default:
		d.Restart = &v1alpha1.ReactionRestart{Pod: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Time: *reconcile.Stamp(w.Now)}
		d.Message = "pod " + pod.Name + " restarts"
		w.Restart = append(w.Restart, pod)
	}
}

// used says for how many claims on its node a driver's pod waits; empty if for none. Pods with these
// claims cannot end while no driver is there that unprepares them.
func (w *work) used(d *v1alpha1.ReactionDevice, pod *corev1.Pod) string {
	if pod == nil || w.Prepared == nil {
		return ""
	}
	claims := w.Prepared(pod, d.Driver)
	if len(claims) == 0 {
		return ""
	}
	return fmt.Sprintf(" restarts when no claim on node %s is prepared: %s left, first %s", pod.Spec.NodeName, plural.Of(len(claims), "claim"), claims[0])
}

// replaced is how long a node may be without a pod of the driver until it counts as one that gets none: it
// was deleted, or the driver does not run there any more.
const replaced = 10 * time.Minute

// gone notes when nodes had no pod of the driver first after a restart.
func (w *work) gone() {
	if w.DriverPod == nil {
		return
	}
	for _, d := range w.known {
		switch {
		case d.Restart == nil:
		case w.restarted(d) != nil:
			d.Restart.GoneTime = nil
		case d.Restart.GoneTime == nil:
			d.Restart.GoneTime = reconcile.Stamp(w.Now)
		}
	}
}

// restarted returns the pod of the driver on the node of a restart, also while it publishes nothing.
func (w *work) restarted(d *v1alpha1.ReactionDevice) *corev1.Pod {
	if node := d.Restart.Node; node != "" {
		return w.DriverPodOn(node)
	}
	return w.DriverPod(d.DeviceName)
}

// restarting names a pod of the driver that was deleted for another device, and whose replacement is not
// ready yet.
func (w *work) restarting(d *v1alpha1.ReactionDevice) string {
	for _, name := range w.names() {
		other := w.known[name]
		if other == d || other.Restart == nil {
			continue
		}
		if gone := other.Restart.GoneTime; gone != nil && w.Now.Sub(gone.Time) >= replaced {
			continue
		}
		pod := w.restarted(other)
		if other.SickSince == nil && pod != nil && pod.UID == other.Restart.UID && pod.DeletionTimestamp == nil {
			continue // its cause has gone before the pod was deleted
		}
		if pod == nil || pod.UID == other.Restart.UID || !ready(pod) {
			return other.Restart.Pod
		}
	}
	return ""
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}
