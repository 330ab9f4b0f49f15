package why

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestNodeSide: for each reason of nodes, with another node that lacks the devices, the cause is what excludes the node that
// has them. It is so with and without a message of kube-scheduler, whatever else that says.
func TestNodeSide(t *testing.T) {
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "other", UID: "other", Labels: map[string]string{"app": "db"}}}
	other.Spec.NodeName = "n1"
	other.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{HostPort: 80}}, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}}}}
	selects := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	for name, tt := range map[string]struct {
		change        func(*corev1.Pod, *Cluster)
		kind          Kind
		line, command string
	}{
		"taint": {func(_ *corev1.Pod, w *Cluster) {
			w.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "example.com/gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
		}, NodeTaint, "node n1, which has the devices, has the taint example.com/gpu=yes:NoSchedule", "kubectl patch pod train-0"},
		"not ready": {func(_ *corev1.Pod, w *Cluster) {
			w.Nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		}, NodeTaint, "node n1, which has the devices, has the taint node.kubernetes.io/not-ready:NoSchedule", ""},
		"cordon":   {func(_ *corev1.Pod, w *Cluster) { w.Nodes[0].Spec.Unschedulable = true }, NodeUnschedulable, "node n1, which has the devices, is unschedulable", "kubectl uncordon n1"},
		"selector": {func(p *corev1.Pod, _ *Cluster) { p.Spec.NodeSelector = map[string]string{"of": "n2"} }, WrongNode, "", ""},
		"cpu": {func(p *corev1.Pod, _ *Cluster) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("2")}
		}, NodeResources, "the devices are available, but no node with them has 2 cpu left for the pod", ""},
		"pods": {func(_ *corev1.Pod, w *Cluster) { w.Nodes[0].Status.Allocatable["pods"] = resource.MustParse("1") }, NodeResources, "node n1, which has the devices, has as many pods as it can have", ""},
		"port": {func(p *corev1.Pod, _ *Cluster) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, NodePorts, "node n1, which has the devices, has port 80 in use", ""},
		"anti-affinity": {func(p *corev1.Pod, _ *Cluster) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "of", LabelSelector: selects, NamespaceSelector: &metav1.LabelSelector{}}}}}
		}, PodAntiAffinity, "node n1, which has the devices, is near a pod that the pod's anti-affinity excludes", ""},
		"affinity": {func(p *corev1.Pod, _ *Cluster) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "of", LabelSelector: selects}}}}
		}, PodAffinity, "node n1, which has the devices, is near no pod (by of) that the pod's affinity asks for", ""},
		"volume": {func(p *corev1.Pod, _ *Cluster) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}, Unknown, "unknown: volumes, which were not read decides, and is not checked", ""},
		"scheduler": {func(p *corev1.Pod, _ *Cluster) {
			p.Spec.SchedulerName, p.Status.Conditions = "volcano", []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		}, Unknown, "unknown: scheduler volcano decides, and is not checked", ""},
		"nodes not read": {func(_ *corev1.Pod, w *Cluster) { w.Nodes = nil }, Unknown, "unknown: nodes were not read", ""},
	} {
		for _, message := range []string{"", "0/2 nodes are available: 1 cannot allocate all claims, 1 Insufficient cpu, 1 persistentvolumeclaim \"x\" not found. preemption: none."} {
			pod := waits(corev1.PodResourceClaim{ResourceClaimName: new("train")})
			pod.Spec.Containers = []corev1.Container{{Name: "train"}}
			if message != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
			}
			w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Nodes: []*corev1.Node{node("n1"), node("n2")}, Claims: []*resourceapi.ResourceClaim{claim("train", nil)}}
			w.Pods = []*corev1.Pod{other, pod}
			for _, n := range w.Nodes {
				n.Labels, n.Status.Allocatable = map[string]string{"of": n.Name}, corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("9")}
			}
			tt.change(pod, &w)
			a, err := w.ExplainPod(t.Context(), pod)
			if err != nil {
				t.Fatal(err)
			}
			c := a.Cause
			if c == nil || c.Kind != tt.kind || tt.line != "" && c.Message != tt.line || len(c.Message) > 100 {
				t.Errorf("%s: %+v; want %s: %s", name, c, tt.kind, tt.line)
				continue
			}
			if len(c.Command) < len(tt.command) || c.Command[:len(tt.command)] != tt.command || (tt.command == "") != (c.Command == "") && tt.kind != WrongNode {
				t.Errorf("%s: command %q; want %q", name, c.Command, tt.command)
			}
		}
	}
}

// TestStates: a pod that is not well is never without a cause.
func TestStates(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		change func(*corev1.Pod, *Cluster)
		kind   Kind // empty for none
	}{
		"runs":      {func(p *corev1.Pod, _ *Cluster) { p.Status.Phase = corev1.PodRunning }, ""},
		"succeeded": {func(p *corev1.Pod, _ *Cluster) { p.Status.Phase = corev1.PodSucceeded }, ""},
		"failed":    {func(p *corev1.Pod, _ *Cluster) { p.Status.Phase = corev1.PodFailed }, Failed},
		"evicted and failed": {func(p *corev1.Pod, _ *Cluster) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low memory"
		}, Failed},
		"not started": {func(*corev1.Pod, *Cluster) {}, NotStarted},
		"no image": {func(p *corev1.Pod, _ *Cluster) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}, NotStarted},
		"not registered": {func(p *corev1.Pod, w *Cluster) {
			w.Events = []*corev1.Event{{Reason: prepareFailed, InvolvedObject: corev1.ObjectReference{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Message: "Failed to prepare dynamic resources: DRA driver gpu.example.com is not registered"}}
		}, NotPrepared},
		"terminating": {func(p *corev1.Pod, _ *Cluster) { p.DeletionTimestamp = &metav1.Time{Time: now} }, Terminating},
		"terminating, dead node": {func(p *corev1.Pod, w *Cluster) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
			w.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		}, Terminating},
		"device gone": {func(p *corev1.Pod, w *Cluster) { p.Status.Phase, w.View = corev1.PodRunning, tracker.Merge(class()) }, DeviceGone},
		"evicted soon": {func(p *corev1.Pod, w *Cluster) {
			p.Status.Phase = corev1.PodRunning
			w.Claims[0].Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
			w.Claims[0].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists, TolerationSeconds: new(int64(600))}}
			devices := gpus(1)
			devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/sick", Effect: resourceapi.DeviceTaintEffectNoExecute}}
			w.View = tracker.Merge(class(), slice("n1", devices...))
		}, Evicted},
	} {
		pod := waits(corev1.PodResourceClaim{ResourceClaimName: new("train")})
		pod.Spec.NodeName = "n1"
		held := holding("train", "n1", "gpu-0")
		held.Namespace = pod.Namespace
		w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Nodes: []*corev1.Node{node("n1")}, Claims: []*resourceapi.ResourceClaim{held}, Now: now}
		tt.change(pod, &w)
		a, err := w.ExplainPod(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if (a.Cause == nil) != (tt.kind == "") || a.Cause != nil && a.Cause.Kind != tt.kind {
			t.Errorf("%s: %+v; want %s", name, a.Cause, tt.kind)
		}
	}
	unused, err := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Nodes: []*corev1.Node{node("n1")}}.ExplainClaim(t.Context(), claim("train", nil), nil)
	if err != nil || unused.Cause == nil || unused.Cause.Kind != Unused {
		t.Errorf("a claim without a pod: %+v, %v", unused.Cause, err)
	}
}

// TestReasons: messages of kube-scheduler are taken apart, and what is not one has no reasons.
func TestReasons(t *testing.T) {
	got := Reasons("0/9 nodes are available: 1 Insufficient cpu, 2 cannot allocate all claims, 3 node(s) had untolerated taint(s), 1 node(s) didn't match PersistentVolume's node affinity, 2 what is this, then. preemption: 0/9 nodes are available: 9 No preemption victims found for incoming pod.")
	want := []SchedulerReason{{1, "Insufficient cpu", placement.Resources}, {2, "cannot allocate all claims", placement.Devices}, {3, "node(s) had untolerated taint(s)", placement.NodeTaint},
		{1, "node(s) didn't match PersistentVolume's node affinity", placement.VolumeElsewhere}, {2, "what is this, then", ""}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	for _, none := range []string{"", "skip", "nodes are available: ", "0/1 nodes are available: ."} {
		if got := Reasons(none); len(got) > 0 {
			t.Errorf("%q: %+v", none, got)
		}
	}
}
