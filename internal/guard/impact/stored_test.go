package impact

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// podsBegun is how many pods count with an eviction that begins now.
func podsBegun(i *Estimator, now time.Time) int {
	return len(hitBegun(i, now, now).Pods)
}

// hitBegun is what counts with an eviction that begins at a time.
func hitBegun(i *Estimator, now, at time.Time) (all guard.Hit) {
	starts, _ := i.Begun(now, guard.DefaultWindow)("DeviceDrain new", at)
	for _, s := range starts {
		all.Devices, all.Pods = append(all.Devices, s.Hit.Devices...), append(all.Pods, s.Hit.Pods...)
	}
	return all
}

// holder returns an estimator of one pod that holds device gpu-0 of node-1.
func holder() (*Estimator, *corev1.Pod) {
	i := &Estimator{Index: &usage.Index{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", UID: "pod"}}
	pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("claim")}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "claim", UID: "claim"}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}}}
	i.Index.SetClaim(claim)
	i.Index.SetPod(pod)
	return i, pod
}

// hold lets pods of a namespace hold device gpu-0 of a node, with one claim of its name.
func hold(i *Estimator, namespace, node string, pods ...string) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node, UID: types.UID(node)}}
	for _, name := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(node + "/" + name)}}
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &node}}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: pod.UID})
		i.Index.SetPod(pod)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: node, Device: "gpu-0"}}}}
	i.Index.SetClaim(claim)
}

// leave takes the pod away.
func leave(i *Estimator) {
	i.Index.DeletePod("team", "pod")
	i.Index.DeleteClaim("team", "claim")
}

// drainOf is a drain of gpu-0 of a node that was created at a time.
func drainOf(node string, at time.Time) *v1alpha1.DeviceDrain {
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node), ResourceVersion: "10", Generation: 1, CreationTimestamp: metav1.NewTime(at)}}
	d.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: node, Device: "gpu-0"}}
	return d
}

// TestRuleThatEvictedCounts: pods that a rule evicted count for the window, also when their rule is gone.
func TestRuleThatEvictedCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r", Generation: 1, CreationTimestamp: metav1.NewTime(now)}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}
	i.Stored(rule, now)
	if n := podsBegun(i, now); n != 1 {
		t.Fatalf("%d pods count of a rule that was created now", n)
	}
	leave(i)
	if n := podsBegun(i, now.Add(30*time.Second)); n != 1 {
		t.Errorf("%d pods count 30 s after the rule evicted 1", n)
	}
	i.Deleted(rule)
	if n := podsBegun(i, now.Add(time.Minute)); n != 1 {
		t.Errorf("%d pods count once the rule is deleted", n)
	}
	if n := podsBegun(i, now.Add(guard.DefaultWindow)); n != 0 {
		t.Errorf("%d pods count after the window", n)
	}
}

// TestFreedDevicesCount: six of seven devices of a driver were drained within the window, each with a pod of another namespace.
func TestFreedDevicesCount(t *testing.T) {
	now := time.Unix(1e9, 0)
	i := &Estimator{Index: &usage.Index{}}
	for _, node := range []string{"a", "b", "c", "d", "e", "f"} {
		hold(i, node, node, "pod")
		d := drainOf(node, now)
		i.Stored(d, now)
		i.Index.DeletePod(node, "pod")
		i.Index.DeleteClaim(node, node)
		d = d.DeepCopy()
		d.ResourceVersion, d.Status.Counts.Evicted = "11", 1
		i.Stored(d, now)
	}
	hold(i, "node-1", "node-1", "pod")
	w := guard.Window{Length: guard.DefaultWindow, Thresholds: guard.DefaultThresholds(), Published: func(string) int { return 7 }}
	hit := i.Index.ImpactOn(ids(drainOf("node-1", now).Spec.Devices), nil).Hit()
	step := guard.Step{Object: "DeviceDrain node-1", Does: "the drain of node-1", Hit: hit, Annotate: "the roll", Begins: []time.Time{now}}
	if why, _ := w.Refuse(now, step, i.Begun(now, w.Length)); why == "" {
		t.Error("all 7 devices of the driver, with pods of 7 namespaces, are drained within the window: thresholds 25 % and 5")
	}
}

// TestCountedByStatus: pods that a drain evicted before this process began count by its status, without a namespace, and each once.
func TestCountedByStatus(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	d := drainOf("node-1", now.Add(-2*time.Minute))
	d.Status.Counts.Evicted, d.Status.Counts.Deleted = 10, 2
	i.Stored(d, now)
	if hit := hitBegun(i, now, now); len(hit.Pods) != 13 || hit.Namespaces() != 1 {
		t.Errorf("%d pods of %d namespaces count while the drain evicts, want 13 of 1", len(hit.Pods), hit.Namespaces())
	}
	leave(i)
	if n := podsBegun(i, now); n != 13 {
		t.Errorf("%d pods count while the status does not have the last one, want 13", n)
	}
	d = d.DeepCopy()
	d.ResourceVersion, d.Status.Counts.Evicted = "11", 11
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 13 {
		t.Errorf("%d pods count once the status has it, want 13", n)
	}
	i.Deleted(d)
	if n := podsBegun(i, now); n != 13 {
		t.Errorf("%d pods count once the node is done and its drain deleted, want 13", n)
	}
	forged := drainOf("node-2", now)
	forged.Status.Counts.Evicted = 1<<31 - 1
	i.Stored(forged, now)
	if n := podsBegun(i, now); n != 13+mostUnseen {
		t.Errorf("%d pods count of a status with any number", n)
	}
}

// TestUnpausedDrainCounts: a drain begins when it is unpaused, and what it evicted before does not count.
func TestUnpausedDrainCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	paused := drainOf("node-1", now.Add(-time.Hour))
	paused.Spec.Paused, paused.Status.Counts.Evicted = true, 5
	i.Stored(paused, now.Add(-time.Minute))
	if n := podsBegun(i, now); n != 0 {
		t.Errorf("%d pods count of a drain that is paused", n)
	}
	d := paused.DeepCopy()
	d.Generation, d.ResourceVersion, d.Spec.Paused = 2, "11", false
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods count of a drain that was unpaused now, want 1", n)
	}
	d = d.DeepCopy()
	d.ResourceVersion, d.Status.Conditions = "12", []metav1.Condition{{Type: v1alpha1.DrainDraining, Status: metav1.ConditionTrue, ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now)}}
	next, _ := holder()
	next.Stored(d, now.Add(time.Minute))
	if n := podsBegun(next, now.Add(time.Minute)); n != 6 { // how many it evicted before that is not known
		t.Errorf("%d pods count in a process that began after that, want 6", n)
	}
}

// TestLeavingPodsCount: a pod counts from its eviction on, whether the counts of its drain have it or not, and whether this
// process saw it before or not.
func TestLeavingPodsCount(t *testing.T) {
	now := time.Unix(1e9, 0)
	for what, status := range map[string]v1alpha1.DeviceDrainStatus{
		"by the Eviction API":    {Evicting: []v1alpha1.DrainPod{{Namespace: "team", Name: "pod", UID: "pod"}}},
		"by an EvictionRequest":  {Requested: []v1alpha1.DrainRequest{{UID: "pod"}}},
		"counted":                {Counts: v1alpha1.DrainCounts{Evicted: 1}},
		"counted and terminates": {Counts: v1alpha1.DrainCounts{Evicted: 1}, Evicting: nil},
	} {
		for _, saw := range []bool{true, false} {
			i, pod := holder()
			d := drainOf("node-1", now)
			if saw {
				i.Stored(d, now)
			}
			d = d.DeepCopy()
			d.ResourceVersion, d.Status = "11", status
			if status.Counts.Evicted == 0 {
				i.Stored(d, now)
				if n := podsBegun(i, now); n != 1 {
					t.Errorf("%s, saw it: %t: %d pods count while it runs", what, saw, n)
				}
			}
			leaving := pod.DeepCopy()
			leaving.DeletionTimestamp = &metav1.Time{Time: now.Add(30 * time.Second)}
			i.Index.SetPod(leaving)
			i.Stored(d, now)
			if n := podsBegun(i, now); n != 1 {
				t.Errorf("%s, saw it: %t: %d pods count while it terminates, want 1", what, saw, n)
			}
			leave(i)
			if n := podsBegun(i, now); n != 1 {
				t.Errorf("%s, saw it: %t: %d pods count once it has gone, want 1", what, saw, n)
			}
		}
	}
}

// TestChangedRuleCounts: a rule that evicts since a moment ago counts before its beginning is recorded.
func TestChangedRuleCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r", Generation: 2, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: &metav1.Time{Time: now}}
	i.Stored(rule, now)
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods count of a rule that was changed to NoExecute now, want 1", n)
	}
}

// TestBehindOwnWrites: a controller notes what it writes, and its informer, which is behind, takes none of that back.
func TestBehindOwnWrites(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	version := func(n int, paused bool) *v1alpha1.DeviceDrain {
		d := drainOf("node-1", now)
		d.ResourceVersion, d.Spec.Paused = fmt.Sprint(n), paused
		return d
	}
	i.Stored(version(10, false), now)
	i.Stored(version(11, true), now)
	i.Stored(version(12, false), now)
	for n := 10; n < 12; n++ {
		i.Stored(version(n, n == 11), now) // by the informer
		if n := podsBegun(i, now); n != 1 {
			t.Errorf("%d pods count while the informer is behind, want 1", n)
		}
	}
	again := version(14, false)
	again.UID = "again"
	i.Stored(again, now)
	i.Deleted(version(12, false))
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods count once the informer has the deletion of the drain before, want 1", n)
	}
	i.Deleted(again)
	if n := podsBegun(i, now); n != 0 || len(i.beginnings.seen) != 0 {
		t.Errorf("%d pods count of a drain that was deleted before it evicted, %d objects are kept", n, len(i.beginnings.seen))
	}
}

// TestNightsCount: a drain that waits for the night counts with one that begins in the night, and not with one that begins now.
func TestNightsCount(t *testing.T) {
	now := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	i, _ := holder()
	d := drainOf("node-1", now.Add(-time.Hour))
	night, err := windows.Parse("22:00-05:00")
	if err != nil {
		t.Fatal(err)
	}
	d.Spec.Windows = []v1alpha1.Window{night}
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 0 {
		t.Errorf("%d pods count at noon", n)
	}
	if hit := hitBegun(i, now, now.Add(10*time.Hour+5*time.Minute)); len(hit.Pods) != 1 {
		t.Errorf("%d pods count with a drain that begins in the night, want 1", len(hit.Pods))
	}
}

// TestBegunSinceTheRequest: what began while a write waited for others has begun, though the write came before.
func TestBegunSinceTheRequest(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	i.Stored(drainOf("node-1", now.Add(time.Second)), now.Add(time.Second))
	starts, _ := i.Begun(now, guard.DefaultWindow)("DeviceDrain new", now)
	if len(starts) != 1 || starts[0].Time.After(now) {
		t.Errorf("%+v begin after now, %s", starts, now)
	}
}

// TestReturnsUnderItsName: a pod of a StatefulSet that was evicted and is back on its device counts once, while its drain is there and
// once it is deleted.
func TestReturnsUnderItsName(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, pod := holder()
	claim := i.Index.Claim("team", "claim").DeepCopy()
	d := drainOf("node-1", now)
	i.Stored(d, now)
	podsBegun(i, now)
	leave(i)
	d = d.DeepCopy()
	d.ResourceVersion, d.Status.Counts.Evicted, d.Status.CompletionTime = "11", 1, &metav1.Time{Time: now}
	i.Stored(d, now)
	next := pod.DeepCopy()
	next.UID, claim.Status.ReservedFor[0].UID = "next", "next"
	i.Index.SetPod(next)
	i.Index.SetClaim(claim)
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods count once it is back, want 1", n)
	}
	i.Deleted(d)
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods count once the drain is deleted, want 1", n)
	}
}
