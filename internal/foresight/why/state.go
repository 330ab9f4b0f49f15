package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// state is what is wrong with a pod that has a node, is being deleted, or has ended.
func (w Cluster) state(a *Answer, pod *corev1.Pod) (all []Cause) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return nil
	case pod.Status.Phase == corev1.PodFailed:
		return []Cause{{Kind: Failed, Message: "the pod has failed" + saying(pod.Status.Reason, pod.Status.Message), Remedy: "look at the log and events of the pod; a controller creates another"}}
	case pod.DeletionTimestamp != nil:
		if all = w.ending(a, pod); len(all) == 0 {
			all = []Cause{w.terminating(pod)}
		}
		return all
	}
	all = append(w.unpublished(a, pod), w.notStarted(pod)...)
	return append(all, w.evicted(pod)...)
}

// saying joins a reason and its message.
func saying(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return ": " + reason
	}
	return ": " + cmp.Or(reason, "reason") + ": " + message
}

// terminating is about a pod that is being deleted.
func (w Cluster) terminating(pod *corev1.Pod) Cause {
	c := Cause{Kind: Terminating, Message: "the pod is being deleted, and has not ended", Remedy: "wait for the end of its grace period"}
	i := slices.IndexFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName })
	switch {
	case pod.Spec.NodeName != "" && len(w.Nodes) > 0 && i < 0:
		c.Message, c.Remedy = "the pod is being deleted, and its node "+pod.Spec.NodeName+" is gone", "delete the pod by force: no kubelet can end it"
	case i >= 0 && !ready(w.Nodes[i]):
		c.Message, c.Remedy = "the pod is being deleted, and the kubelet of its node "+pod.Spec.NodeName+" is not ready", "repair the node, or delete it once it is off: the pod then ends"
	case len(pod.Finalizers) > 0:
		c.Message, c.Remedy = "the pod is being deleted, and has the finalizer "+list(pod.Finalizers, 3), "the controller that set the finalizer must remove it"
	case !w.Now.IsZero() && w.Now.After(pod.DeletionTimestamp.Add(slicesEnd)):
		c.Message = fmt.Sprintf("the pod is being deleted, %s longer than its grace period", w.Now.Sub(pod.DeletionTimestamp.Time).Round(time.Second))
		c.Remedy = "look at the log of the kubelet of node " + pod.Spec.NodeName
	}
	return c
}

// ready reports whether a node is ready; one of a manifest without conditions is taken to be.
func ready(n *corev1.Node) bool {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return i < 0 || n.Status.Conditions[i].Status == corev1.ConditionTrue
}

// unpublished are the devices of the pod that its drivers no longer publish.
func (w Cluster) unpublished(a *Answer, pod *corev1.Pod) (all []Cause) {
	published := map[usage.DeviceID]bool{}
	for slice := range w.View.PublishedSlices() {
		for i := range slice.Spec.Devices {
			published[usage.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}] = true
		}
	}
	for _, report := range a.Claims {
		claim := w.claim(pod.Namespace, report.Claim)
		if claim == nil || claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if id := (usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}); !published[id] {
				all = append(all, Cause{Kind: DeviceGone, Claim: claim.Name, Devices: 1, Message: fmt.Sprintf("driver %s no longer publishes %s of pool %s, which the pod has", r.Driver, r.Device, r.Pool),
					Remedy: "repair the device or its driver, or delete the pod: it gets another device"})
			}
		}
	}
	return all
}

// notStarted is why the kubelet has not started a pod.
func (w Cluster) notStarted(pod *corev1.Pod) []Cause {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return nil
	}
	node := pod.Spec.NodeName
	var last *corev1.Event
	for _, e := range w.Events {
		if about(e, pod, prepareFailed) && (last == nil || last.LastTimestamp.Before(&e.LastTimestamp)) {
			last = e
		}
	}
	if last != nil {
		c := Cause{Kind: NotPrepared, Message: "the kubelet of node " + node + " cannot prepare the devices: " + last.Message, Remedy: "the log of the driver on node " + node + " has the reason"}
		if found := regexp.MustCompile(`DRA driver (\S+) is not registered`).FindStringSubmatch(last.Message); found != nil {
			c.Message, c.Remedy = fmt.Sprintf("driver %s is not registered with the kubelet of node %s", found[1], node), "start or restart the pod of the driver on node "+node
		}
		return []Cause{c}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waits := s.State.Waiting; waits != nil && waits.Reason != "" && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing" {
			return []Cause{{Kind: NotStarted, Message: "container " + s.Name + " waits" + saying(waits.Reason, waits.Message), Remedy: "look at the events of the pod"}}
		}
	}
	return []Cause{{Kind: NotStarted, Message: "the kubelet of node " + node + " has not started the pod yet", Remedy: "look at the events of the pod, and at the log of the kubelet"}}
}

// evicted is whether a taint of a device evicts the running pod.
func (w Cluster) evicted(pod *corev1.Pod) []Cause {
	cluster := placement.Cluster{View: w.View, Claims: w.Claims, Pods: []*corev1.Pod{pod}, Patched: w.Patched, Now: w.Now}
	leaving := cluster.Evicted()
	if len(leaving) == 0 {
		return nil
	}
	c := Cause{Kind: Evicted, Message: "a taint of a device with the effect NoExecute evicts the pod now", Remedy: "remove the taint, if the device is good"}
	if leaving[0].After > 0 {
		c.Message = fmt.Sprintf("a taint of a device with the effect %s evicts the pod %s after the taint was added", resourceapi.DeviceTaintEffectNoExecute, leaving[0].After)
	}
	return []Cause{c}
}
