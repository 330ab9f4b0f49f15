package devicedrain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// TestTenantsDoNotStopIt: pods that a tenant adds to its claim do not stop a drain that has begun, which
// leaves them alone for the back-off, and deletes them after a deadline with Delete. Before it begins, and
// after its cordon was interrupted, the thresholds count them.
func TestTenantsDoNotStopIt(t *testing.T) {
	for name, tt := range map[string]struct {
		// at is when the pods are created, meanwhile what happens then.
		at        time.Duration
		meanwhile func(w *world)
		blocked   string
	}{
		"before it begins":         {5 * time.Second, func(*world) {}, "Blocked=True AboveThreshold"},
		"after two evictions":      {25 * time.Second, func(*world) {}, ""},
		"the cordon is taken away": {25 * time.Second, func(w *world) { w.rules = nil }, "Blocked=True AboveThreshold"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, func(s *v1alpha1.DeviceDrainSpec) {
				s.PodsWithoutController, s.EvictionsPerMinute = v1alpha1.EvictPods, new(int32(6))
				s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: 10 * time.Minute}, Action: v1alpha1.DeadlineDelete}
			})
			w.limit = guard.Thresholds{Pods: 20, Namespaces: 5, Percent: 100}
			shared := w.claim("mallory", 0)
			for range 3 {
				w.pod("", shared, 0)
			}
			for range 5 {
				w.pod("alice", nil, 1)
			}
			w.run(tt.at, never)
			evicted := len(w.times)
			tt.meanwhile(w)
			for range 25 {
				w.pod("", shared, 0)
			}
			w.run(20*time.Minute, never)
			if tt.blocked != "" {
				w.expect(tt.blocked, "Draining=False AboveThreshold")
				if len(w.times) > evicted {
					t.Errorf("%d pods evicted", len(w.times)-evicted)
				}
				return
			}
			w.expect("Drained=True Drained")
			if evicted == 0 || len(w.times) != 33 {
				t.Errorf("%d pods evicted, then %d, want all 33", evicted, len(w.times))
			}
		})
	}
}

// TestOwnersAreBounded: what the author of a pod writes about its owner, or the author of a claim about
// who uses it, hides no block, and comes into the status bounded and without control characters.
func TestOwnersAreBounded(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	for name, write := range map[string]func(owner *metav1.OwnerReference, consumer *resourceapi.ResourceClaimConsumerReference){
		"kind": func(o *metav1.OwnerReference, _ *resourceapi.ResourceClaimConsumerReference) { o.Kind = long },
		"name": func(o *metav1.OwnerReference, _ *resourceapi.ResourceClaimConsumerReference) { o.Name = long },
		"uid":  func(o *metav1.OwnerReference, _ *resourceapi.ResourceClaimConsumerReference) { o.UID = types.UID(long) },
		"control": func(o *metav1.OwnerReference, _ *resourceapi.ResourceClaimConsumerReference) {
			o.Name = "a\x1b[2K\nall is well"
		},
		"consumer": func(_ *metav1.OwnerReference, c *resourceapi.ResourceClaimConsumerReference) { c.Name = long },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4, nil)
			group := w.claim("group", 0)
			group.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "a", UID: "group"}}
			for i, owner := range []string{"mallory", "mallory", "zeta"} {
				w.pod(owner, nil, i+1)
			}
			write(&w.pods[0].OwnerReferences[0], &group.Status.ReservedFor[0])
			w.pods[1].OwnerReferences = w.pods[0].OwnerReferences
			w.budget("mallory", "mallory", 1)
			w.budget("zeta", "zeta", 1)
			w.run(time.Minute, never)
			w.expect("Blocked=True ClaimReserved")
			if n := len(w.drain.Status.Blocked); n != 3 || w.drain.Status.Counts.Blocked != 2 || len(w.times) != 1 {
				t.Errorf("%d blocks of %d pods; %d evicted", n, w.drain.Status.Counts.Blocked, len(w.times))
			}
			message := w.condition("Blocked").Message
			if !strings.Contains(message, "PodDisruptionBudget ml/zeta") || strings.ContainsFunc(message, unicode.IsControl) {
				t.Errorf("message %q", message)
			}
			if status, err := json.Marshal(w.drain.Status); err != nil || len(status) > 8<<10 {
				t.Errorf("a status of %d bytes: %v", len(status), err)
			}
		})
	}
}
