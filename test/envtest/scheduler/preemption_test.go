package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Preemption frees what nodes have, and no devices: a pod of high priority waits for a device that
// a pod of low priority has, with our plugin as with that of Kubernetes. For a port of the node, a
// pod with a claim preempts another one.
func TestPreemption(t *testing.T) {
	w := start(t, onlyPatched+"- schedulerName: unpatched\n", "node-0")
	w.installType(t)
	w.grant(t)
	w.publish(t, "node-0", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"})
	for name, value := range map[string]int32{"low": 1, "high": 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := w.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Device b is the only one of rack r12, by a patch.
	w.patch(t, "rack", `{filter: {device: b}, attributes: {dc.example.com/rack: {string: r12}}}`)
	const rack = `device.attributes["dc.example.com"].?rack.orValue("") == "r12"`
	const port = 8080
	w.askWith(t, "holder", "", rack, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "low" })
	if got := w.isBound(t, "holder"); got != "node-0/b" {
		t.Fatalf("the holder has %s", got)
	}
	w.askWith(t, "urgent", "", rack, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" })
	w.isPending(t, "urgent")
	w.waits(t, "urgent", "holder")

	w.askWith(t, "listens", "", "", func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName = "low"
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	})
	if got := w.isBound(t, "listens"); got != "node-0/a" {
		t.Fatalf("the pod with the port has %s", got)
	}
	w.askWith(t, "unpatched", "unpatched", "", func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" })
	w.isPending(t, "unpatched")
	w.waits(t, "unpatched", "listens")
	w.free(t, "listens")
	w.isBound(t, "unpatched")
	w.free(t, "unpatched")

	plain := plainPod("plain", "")
	plain.Spec.PriorityClassName = "low"
	plain.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	w.create(t, plain)
	eventually(t, "the pod without a claim is bound", func() bool { return w.pod(t, "plain").Spec.NodeName != "" })
	w.askWith(t, "preempts", "", "", func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName = "high"
		pod.Spec.Containers[0].Ports = plain.Spec.Containers[0].Ports
	})
	if got := w.isBound(t, "preempts"); got != "node-0/a" {
		t.Errorf("the pod that preempts has %s", got)
	}
	w.waits(t, "urgent", "holder")
	w.free(t, "holder")
	if got := w.isBound(t, "urgent"); got != "node-0/b" {
		t.Errorf("the urgent pod has %s", got)
	}
}

// waits checks that a pod waits, without a node that preemption has chosen for it, and that the pod
// with the device stays.
func (w *world) waits(t *testing.T, name, holder string) {
	t.Helper()
	if pod := w.pod(t, name); pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" {
		t.Errorf("%s: node %q, nominated %q", name, pod.Spec.NodeName, pod.Status.NominatedNodeName)
	}
	if pod := w.pod(t, holder); pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
		t.Errorf("%s is preempted: deletion %v, node %q", holder, pod.DeletionTimestamp, pod.Spec.NodeName)
	}
}

func (w *world) pod(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	pod, err := w.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}
