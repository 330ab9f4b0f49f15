package drain_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
