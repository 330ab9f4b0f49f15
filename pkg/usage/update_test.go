package usage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// heartbeat is a pod after a write of its status that changes nothing about its claims.
func heartbeat(p *corev1.Pod, n int) *corev1.Pod {
	next := p.DeepCopy()
	next.ResourceVersion = fmt.Sprint(n)
	next.Status.Conditions = append(next.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: fmt.Sprint(n)})
	return next
}

// TestWatchedChanges: watchers hear of a pod when a field changes that an eviction depends
// on, and of no other write. The index returns the newest object in any case.
func TestWatchedChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*corev1.Pod)
		notifies bool
	}{
		"nothing":       {func(*corev1.Pod) {}, false},
		"ready":         {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		"annotations":   {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"labels":        {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, false},
		"container IDs": {func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "x"}} }, false},
		"node":          {func(p *corev1.Pod) { p.Spec.NodeName = "other" }, true},
		"phase":         {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"deletion":      {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"claim status": {func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: ptr.To("made-1")}}
		}, true},
		"extended resources": {func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
		}, true},
		"scheduling group": {func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")} }, true},
		"disruption target": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "x"}}
		}, true},
		"another pod of the name": {func(p *corev1.Pod) { p.UID = "another" }, true},
	} {
		for _, trimmed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, trimmed %t", name, trimmed), func(t *testing.T) { watchedChange(t, tt.change, trimmed, tt.notifies) })
		}
	}
}

func watchedChange(t *testing.T, change func(*corev1.Pod), trimmed, notifies bool) {
	trim := func(p *corev1.Pod) *corev1.Pod {
		if trimmed {
			object, err := Trim(p)
			if err != nil {
				t.Fatal(err)
			}
			return object.(*corev1.Pod)
		}
		return p
	}
	var index Index
	old := pod("p", "c")
	old.Spec.ResourceClaims = append(old.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "made", ResourceClaimTemplateName: ptr.To("template")})
	index.SetClaim(reserve(claim("c", "gpu-0"), old))
	index.SetPod(trim(old))
	var got []types.NamespacedName
	index.Watch(func(pod types.NamespacedName) { got = append(got, pod) })
	got = nil
	changed := old.DeepCopy()
	changed.ResourceVersion = "2"
	change(changed)
	changed = trim(changed)
	index.SetPod(changed)
	if (len(got) > 0) != notifies {
		t.Errorf("notified of %v, want a notification: %t", got, notifies)
	}
	if index.Pod("ns", "p") != changed {
		t.Error("the index has the old object")
	}
	if changed.UID == old.UID && !slices.Equal(index.Pods("ns", "c"), []*corev1.Pod{changed}) {
		t.Error("the claim has the old object of its pod")
	}
	if concerned := index.Concerned(&resourceapi.DeviceTaintSelector{Driver: new("d"), Pool: new("p"), Device: new("gpu-0")}, nil); len(concerned) != 1 {
		t.Errorf("the device concerns %v", concerned)
	}
}

// TestClaimHeartbeat: a write of status.devices of a claim keeps the index and notifies of
// no pod.
func TestClaimHeartbeat(t *testing.T) {
	var index Index
	p := pod("p", "c")
	old := reserve(claim("c", "gpu-0", "gpu-1"), p)
	index.SetPod(p)
	index.SetClaim(old)
	notified := 0
	index.Watch(func(types.NamespacedName) { notified++ })
	notified = 0
	changed := old.DeepCopy()
	changed.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "gpu-0"}}
	index.SetClaim(changed)
	if notified > 0 {
		t.Error("notified of the pod")
	}
	if index.Claim("ns", "c") != changed || index.Claims(DeviceID{"d", "p", "gpu-1"})[0] != changed {
		t.Error("the index has the old object")
	}
	index.DeleteClaim("ns", "c")
	index.DeletePod("ns", "p")
	if len(index.claims)+len(index.pods)+len(index.devices)+len(index.naming) != 0 {
		t.Error("something is left in an empty index")
	}
}

// TestManyPodsOfOneClaim: what a write of one pod costs does not depend on how many pods
// share its claim.
func TestManyPodsOfOneClaim(t *testing.T) {
	perWrite := func(n int) time.Duration {
		var index Index
		pods := make([]*corev1.Pod, n)
		for i := range pods {
			pods[i] = pod(fmt.Sprint("p-", i), "shared")
			index.SetPod(pods[i])
		}
		const writes = 1000
		next := make([]*corev1.Pod, writes)
		for i := range next {
			next[i] = heartbeat(pods[i%n], i)
		}
		start := time.Now()
		for _, p := range next {
			index.SetPod(p)
		}
		return time.Since(start) / writes
	}
	few, many := perWrite(100), perWrite(20_000)
	for range 2 { // another process may have had the processor
		many = min(many, perWrite(20_000))
	}
	if many > 20*few+20*time.Microsecond {
		t.Errorf("a write takes %s with 20,000 pods of a claim, %s with 100", many, few)
	}
}

// BenchmarkPodHeartbeat is the commonest event of a cluster: the kubelet writes the status
// of a pod.
func BenchmarkPodHeartbeat(b *testing.B) {
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%t", shared), func(b *testing.B) {
			const n = 16_000
			var index Index
			var writes [2][]*corev1.Pod
			for i := range n {
				name := fmt.Sprint("c-", i)
				if shared {
					name = "c"
				}
				p := pod(fmt.Sprint("p-", i), name)
				index.SetPod(p)
				writes[0], writes[1] = append(writes[0], heartbeat(p, 1)), append(writes[1], heartbeat(p, 2))
			}
			i := 0
			for b.Loop() {
				index.SetPod(writes[i/n%2][i%n])
				i++
			}
		})
	}
}
