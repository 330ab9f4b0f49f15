package drain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

func activeOf(index *usage.Index) ActiveEvictions {
	return ActiveEvictions{Usage: index, Rules: cache.NewStore(cache.MetaNamespaceKeyFunc), Length: 10 * time.Minute}
}

func podsOf(a ActiveEvictions, drains []*v1alpha1.DeviceDrain, now time.Time) (n int) {
	for _, s := range a.Starts(drains, now) {
		n += len(s.Hit.Pods)
	}
	return n
}

// holder adds a pod that holds a device.
func holder(index *usage.Index) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", UID: "pod"}}
	pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("claim")}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "claim", UID: "claim"}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}}}
	index.SetClaim(claim)
	index.SetPod(pod)
	return pod
}

// TestEndedDrainCounts: the pods that a drain has evicted count for the window, also once its roll or reaction has deleted it.
func TestEndedDrainCounts(t *testing.T) {
	store, now := cache.NewStore(cache.MetaNamespaceKeyFunc), time.Unix(1e9, 0)
	made := NewDrainStore(store, func() string { return "9" })
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "roll-node-1", UID: "1", ResourceVersion: "5", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Minute))}}
	d.Status.Counts.Evicted = 12
	if err := store.Add(d); err != nil {
		t.Fatal(err)
	}
	active := activeOf(&usage.Index{})
	if n := podsOf(active, made.All(now), now); n != 12 || len(made.Counted(made.All(now))) != 1 {
		t.Errorf("%d pods count while the drain exists", n)
	}
	made.Deleted(d, now)
	if err := store.Delete(d); err != nil {
		t.Fatal(err)
	}
	all := made.All(now)
	if n := podsOf(active, made.Counted(all), now); len(all) != 0 || n != 12 {
		t.Errorf("%d pods count once the node is done and its drain deleted, want 12", n)
	}
}

// TestLeavingPodsCount: a pod counts from its eviction on, whether the counts of its drain have it or not.
func TestLeavingPodsCount(t *testing.T) {
	now := time.Unix(1e9, 0)
	var index usage.Index
	pod := holder(&index)
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "d", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}}
	d.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}
	for what, leave := range map[string]func(*v1alpha1.DeviceDrainStatus){
		"by the Eviction API": func(s *v1alpha1.DeviceDrainStatus) {
			s.Evicting = []v1alpha1.DrainPod{{Namespace: "team", Name: "pod", UID: "pod"}}
		},
		"by an EvictionRequest": func(s *v1alpha1.DeviceDrainStatus) { s.Requested = []v1alpha1.DrainRequest{{UID: "pod"}} },
	} {
		of := d.DeepCopy()
		leave(&of.Status)
		index.SetPod(pod)
		if n := podsOf(activeOf(&index), []*v1alpha1.DeviceDrain{of}, now); n != 1 {
			t.Errorf("%s: %d pods count while it runs", what, n)
		}
		leaving := pod.DeepCopy()
		leaving.DeletionTimestamp = &metav1.Time{Time: now.Add(30 * time.Second)}
		index.SetPod(leaving)
		if n := podsOf(activeOf(&index), []*v1alpha1.DeviceDrain{of}, now); n != 1 {
			t.Errorf("%s: %d pods count while it terminates, want 1", what, n)
		}
		index.DeletePod("team", "pod")
		if n := podsOf(activeOf(&index), []*v1alpha1.DeviceDrain{of}, now); n != 1 {
			t.Errorf("%s: %d pods count until the status of the drain has it, want 1", what, n)
		}
		of.Status = v1alpha1.DeviceDrainStatus{}
		of.Status.Counts.Evicted = 1
		if n := podsOf(activeOf(&index), []*v1alpha1.DeviceDrain{of}, now); n != 1 {
			t.Errorf("%s: %d pods count at the end", what, n)
		}
	}
}

// TestChangedRuleCounts: a rule that evicts since a moment ago counts before its beginning is recorded.
func TestChangedRuleCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	var index usage.Index
	holder(&index)
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r", Generation: 2, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: &metav1.Time{Time: now}}
	a := activeOf(&index)
	if err := a.Rules.Add(rule); err != nil {
		t.Fatal(err)
	}
	if n := podsOf(a, nil, now); n != 1 {
		t.Errorf("%d pods count of a rule that was changed to NoExecute now, want 1", n)
	}
}

// TestCountedOfThisPass: a drain that an earlier roll or reaction of the same pass has created counts.
func TestCountedOfThisPass(t *testing.T) {
	now := time.Unix(1e9, 0)
	var index usage.Index
	holder(&index)
	made := NewDrainStore(cache.NewStore(cache.MetaNamespaceKeyFunc), func() string { return "9" })
	all := made.All(now) // the pass begins
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: "10", CreationTimestamp: metav1.NewTime(now)}}
	d.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}
	made.Wrote(d, now)
	all = append(all, d)
	if n := podsOf(activeOf(&index), made.Counted(all), now); n != 1 {
		t.Errorf("%d pods count of a drain that this pass has created, want 1", n)
	}
}

// TestUnpausedDrainCounts: a drain begins when it is unpaused.
func TestUnpausedDrainCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	var index usage.Index
	holder(&index)
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", Generation: 2, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	d.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}
	d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainDraining, Status: metav1.ConditionTrue, ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now)}}
	if n := podsOf(activeOf(&index), []*v1alpha1.DeviceDrain{d}, now); n != 1 {
		t.Errorf("%d pods count of a drain that was unpaused now, want 1", n)
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(d); err != nil {
		t.Fatal(err)
	}
	made := NewDrainStore(store, func() string { return "9" })
	made.All(now)
	d.Status.Counts.Evicted = 1
	made.Deleted(d, now)
	if n := podsOf(activeOf(&usage.Index{}), made.Counted(made.All(now)), now); n != 1 {
		t.Errorf("%d pods count of one that was deleted after that, want 1", n)
	}
}
