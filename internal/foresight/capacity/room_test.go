package capacity_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// asking returns a template for count devices, and a pod that uses it.
func asking(count int64) (*resourceapi.ResourceClaimTemplate, *corev1.Pod) {
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "devices"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "devices", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any", Count: count}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &template.Name}}
	return template, pod
}

func large(name string, cpu string) *corev1.Node {
	n := node(name, true)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return n
}

// question is one about two nodes with five and three devices.
func question(count int64, objects ...any) capacity.Question {
	template, pod := asking(count)
	objects = append(objects, slice("node-1", gpus(5, nil)...), slice("node-2", gpus(3, nil)...), classOf("any", "true"))
	return capacity.Question{Pod: pod, Cluster: placement.Cluster{
		View: tracker.Merge(objects...), Templates: []*resourceapi.ResourceClaimTemplate{template}, Nodes: []*corev1.Node{large("node-2", "16"), large("node-1", "16")}}}
}

func answer(t *testing.T, q capacity.Question) (capacity.Room, string) {
	t.Helper()
	r, err := q.Room(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d to %d %v", r.Least, r.Most, r.Nodes)
	if r.Exact {
		text = fmt.Sprintf("%d %v", r.Most, r.Nodes)
	}
	return r, text
}

// TestRoom: what is on the nodes decides, and the answer is exact.
func TestRoom(t *testing.T) {
	for _, tt := range []struct {
		name   string
		count  int64
		change func(*capacity.Question)
		want   string
		limit  placement.Kind
	}{
		{"pairs", 2, func(*capacity.Question) {}, "3 [{node-1 2} {node-2 1}]", placement.Taken},
		{"cpu", 1, func(q *capacity.Question) { q.Cluster.Nodes[1] = large("node-1", "2") }, "5 [{node-1 2} {node-2 3}]", placement.Resources},
		{"node selector", 1, func(q *capacity.Question) {
			q.Cluster.Nodes[0].Labels = map[string]string{"zone": "a"}
			q.Pod.Spec.NodeSelector = map[string]string{"zone": "a"}
		}, "3 [{node-2 3}]", placement.NodeSelector},
		{"no template", 1, func(q *capacity.Question) { q.Cluster.Templates = nil }, "0 []", placement.TemplateMissing},
		{"held", 1, func(q *capacity.Question) {
			q.Cluster.Claims = []*resourceapi.ResourceClaim{holder("team-b", "node-2", "gpu-0", "gpu-1")}
		}, "6 [{node-1 5} {node-2 1}]", placement.Taken},
		{"before 1.36", 2, func(q *capacity.Question) { q.Unordered = true }, "3 [{node-1 2} {node-2 1}]", placement.Taken},
		{"no nodes were read", 2, func(q *capacity.Question) {
			q.Cluster.Nodes, q.Pod.Spec.Containers[0].Resources = nil, corev1.ResourceRequirements{}
		}, "3 [{node-1 2} {node-2 1}]", placement.Taken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := question(tt.count)
			tt.change(&q)
			r, got := answer(t, q)
			if got != tt.want || r.Limit == nil || r.Limit.Kind != tt.limit {
				t.Errorf("%s, limit %v; want %s, %s", got, r.Limit, tt.want, tt.limit)
			}
		})
	}
}

// TestRoomByOrder: where the choice of nodes decides, the answer is an interval, and all
// orders are tried if they are few.
func TestRoomByOrder(t *testing.T) {
	network := slice("network", gpus(1, nil)...)
	network.Spec.NodeName, network.Spec.AllNodes = nil, new(true)
	q := question(2, network)
	q.Cluster.Claims = []*resourceapi.ResourceClaim{holder("team-b", "node-1", "gpu-0")}
	r, got := answer(t, q)
	if !r.Proven || r.Least != 3 || r.Most != 4 {
		t.Errorf("%s, %+v; want 3 to 4, proven", got, r)
	}
	for i := range 1500 {
		q.Cluster.Nodes = append(q.Cluster.Nodes, large(fmt.Sprintf("other-%d", i), "16"))
	}
	if r, got := answer(t, q); r.Proven || r.Exact || r.Least < 3 || r.Most > 4 {
		t.Errorf("%s, %+v; want 3 to 4 at most, not proven", got, r)
	}
}

// TestRoomOfOneClaim: all pods use one claim, so the first decides on the node.
func TestRoomOfOneClaim(t *testing.T) {
	q := question(1)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "one", UID: "one"}, Spec: q.Cluster.Templates[0].Spec.Spec}
	q.Cluster.Claims = []*resourceapi.ResourceClaim{claim}
	q.Cluster.Nodes[0] = large("node-2", "4")
	q.Cluster.Nodes[1] = large("node-1", "6")
	q.Pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "devices", ResourceClaimName: &claim.Name}
	if r, got := answer(t, q); r.Least != 4 || r.Most != 6 || !r.Proven {
		t.Errorf("%s, %+v; want 4 to 6, proven", got, r)
	}
}

// TestRoomAfterDrain: pods that leave are placed first.
func TestRoomAfterDrain(t *testing.T) {
	q := question(1)
	template, pod := asking(1)
	pod.Name, pod.UID, pod.Spec.NodeName = "old", "old", "node-1"
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "old", Controller: new(true)}}
	name := "old-devices"
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "devices", ResourceClaimName: &name}}
	claim := holder("team-a", "node-1", "gpu-0")
	claim.Name, claim.Spec = name, template.Spec.Spec
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "old", UID: "old", Controller: new(true)}}
	claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: "devices"}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "old", UID: "old"}}
	q.Cluster.Claims, q.Cluster.Pods = []*resourceapi.ResourceClaim{claim}, []*corev1.Pod{pod}
	if _, got := answer(t, q); got != "7 [{node-1 4} {node-2 3}]" {
		t.Errorf("before: %s", got)
	}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "cordon"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(driver), Pool: new("node-1"), Device: new("gpu-0")}, Taint: resourceapi.DeviceTaint{Key: "example.com/drain", Effect: "NoSchedule"}}}
	change := q.Cluster.Drained([]any{rule}, func(id usage.DeviceID) bool {
		return id == usage.DeviceID{Driver: driver, Pool: "node-1", Device: "gpu-0"}
	})
	q.Cluster, q.Leaving = change.After, change.Leaving
	if _, got := answer(t, q); len(q.Leaving) != 1 || !strings.HasPrefix(got, "6 ") {
		t.Errorf("after, with %d pods that leave: %s", len(q.Leaving), got)
	}
}

// TestRoomWhereSearchesAreSlow: a search that takes too long proves nothing, and leaves time for the nodes after it.
func TestRoomWhereSearchesAreSlow(t *testing.T) {
	template, pod := asking(8)
	devices := &template.Spec.Spec.Devices
	for _, name := range []string{"b", "c"} {
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any", Count: 1}})
	}
	devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"b", "c"}, MatchAttribute: new(resourceapi.FullyQualifiedName(driver + "/link"))}}
	linked := gpus(12, nil)
	for _, i := range []int{3, 4} {
		linked[i].Attributes["link"] = resourceapi.DeviceAttribute{StringValue: new("x")}
	}
	objects, nodes := []any{classOf("any", "true"), slice("z", linked...)}, []*corev1.Node{large("z", "16")}
	for i := range 10 {
		name := fmt.Sprint("slow-", i)
		objects, nodes = append(objects, slice(name, gpus(24, nil)...)), append(nodes, large(name, "16"))
	}
	for _, tt := range []struct {
		nodes, slow int
		exact       bool
	}{{1, 0, true}, {11, 10, false}} {
		q := capacity.Question{Pod: pod, Cluster: placement.Cluster{View: tracker.Merge(objects...), Templates: []*resourceapi.ResourceClaimTemplate{template}, Nodes: nodes[:tt.nodes], Steps: 20_000}}
		r, got := answer(t, q)
		if fmt.Sprint(r.Nodes) != "[{z 1}]" || len(r.Slow) != tt.slow || r.Exact != tt.exact || r.Proven != tt.exact {
			t.Errorf("%d nodes: %s, %+v; want one pod on z, exact %t, and %d nodes that are slow", tt.nodes, got, r, tt.exact, tt.slow)
		}
	}
}
