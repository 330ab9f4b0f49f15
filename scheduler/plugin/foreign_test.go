package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// boundPod is a pod with a claim that a scheduler has bound.
func boundPod(uid types.UID, scheduler, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: corev1.PodSpec{
		SchedulerName: scheduler, NodeName: node, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}}
}

// TestForeign: a scheduler of another name is reported, and one that binds pods of our profiles
// to nodes that this process has not selected.
func TestForeign(t *testing.T) {
	begin := time.Unix(1e9, 0)
	for _, tt := range []struct {
		name      string
		scheduler string
		reserved  string
		waiting   bool // for another scheduler, which leads
		want      bool
	}{
		{name: "ours", scheduler: "patched", reserved: "node-0"},
		{name: "ours on another node", scheduler: "patched", reserved: "node-1", want: true},
		{name: "ours, not selected here", scheduler: "patched", want: true},
		{name: "ours, while another replica leads", scheduler: "patched", waiting: true},
		{name: "ours without the plugin", scheduler: "stock"},
		{name: "another name", scheduler: "other", want: true},
		{name: "another name, while another replica leads", scheduler: "other", waiting: true, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newForeign([]string{"stock", "patched"})
			f.addPatched("patched")
			f.leading.Store(!tt.waiting)
			pod := boundPod("a", tt.scheduler, "node-0")
			if tt.reserved != "" {
				f.reserve(pod, tt.reserved)
			}
			if got := f.isForeign(pod, begin); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
			if f.isForeign(pod, begin.Add(time.Second)) {
				t.Error("reported twice within a second")
			}
			if got := f.isForeign(pod, begin.Add(repeatEvery)); got != tt.want {
				t.Errorf("later: got %t, want %t", got, tt.want)
			}
		})
	}
}

// TestForeignForgets: what is remembered of pods ends with their binding or deletion.
func TestForeignForgets(t *testing.T) {
	f := newForeign(nil)
	f.addPatched("patched")
	f.leading.Store(true)
	var calls []types.UID
	h := f.handler(func() bool { return true }, func(pod *corev1.Pod) { calls = append(calls, pod.UID) })
	for _, uid := range []types.UID{"bound", "deleted", "lost"} {
		f.reserve(boundPod(uid, "patched", ""), "node-0")
	}
	h.OnUpdate(boundPod("bound", "patched", ""), boundPod("bound", "patched", "node-0"))
	h.OnUpdate(boundPod("bound", "patched", "node-0"), boundPod("bound", "patched", "node-0"))
	h.OnDelete(boundPod("deleted", "patched", ""))
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: boundPod("lost", "patched", "")})
	h.OnDelete(cache.DeletedFinalStateUnknown{})
	if len(f.reserved) != 0 || len(calls) != 0 {
		t.Errorf("remembered %v, told %v; want neither", f.reserved, calls)
	}
	extended := boundPod("extended", "other", "node-0")
	extended.Spec.ResourceClaims, extended.Status.ExtendedResourceClaimStatus = nil, &corev1.PodExtendedResourceClaimStatus{}
	before := extended.DeepCopy()
	before.Spec.NodeName = ""
	h.OnUpdate(before, extended)
	if len(calls) != 1 {
		t.Errorf("notified of %v, want the pod with an extended resource", calls)
	}
}
