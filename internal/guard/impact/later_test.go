package impact

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestReadBeforePods: a drain is read before the pods that it evicts: each counts once.
func TestReadBeforePods(t *testing.T) {
	now := time.Unix(1e9, 0)
	full, pod := holder()
	claim := full.Index.Claim("team", "claim")
	i := &Estimator{Index: &usage.Index{}}
	d := drainOf("node-1", now)
	d.Status.Requested = []v1alpha1.DrainRequest{{UID: "pod"}}
	i.Stored(d, now)
	i.Index.SetClaim(claim)
	i.Index.SetPod(pod)
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods, want 1", n)
	}
}

// TestUnblockedDrainCounts: a drain that was blocked for long begins when it evicts.
func TestUnblockedDrainCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	d := drainOf("node-1", now.Add(-20*time.Minute))
	d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainDraining, Status: metav1.ConditionFalse, Reason: v1alpha1.BlockedThreshold, ObservedGeneration: 1, LastTransitionTime: d.CreationTimestamp}}
	i.Stored(d, now.Add(-time.Minute))
	d = d.DeepCopy()
	d.ResourceVersion = "11"
	d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainDraining, Status: metav1.ConditionTrue, Reason: "Evicting", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now)}}
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 1 {
		t.Errorf("%d pods, want 1", n)
	}
	next, _ := holder()
	next.Stored(d, now)
	if n := podsBegun(next, now); n != 1 {
		t.Errorf("%d pods in another process, want 1", n)
	}
}

// TestPausedAndResumed: pods that were evicted before this process began count, also after a pause.
func TestPausedAndResumed(t *testing.T) {
	now := time.Unix(1e9, 0)
	i, _ := holder()
	d := drainOf("node-1", now.Add(-2*time.Minute))
	d.Status.Counts.Evicted = 12
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 13 {
		t.Errorf("%d pods, want 13", n)
	}
	d = d.DeepCopy()
	d.ResourceVersion, d.Generation, d.Spec.Paused = "11", 2, true
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 12 {
		t.Errorf("paused: %d pods, want 12", n)
	}
	d = d.DeepCopy()
	d.ResourceVersion, d.Generation, d.Spec.Paused = "12", 3, false
	i.Stored(d, now)
	if n := podsBegun(i, now); n != 13 {
		t.Errorf("resumed: %d pods, want 13", n)
	}
}

// TestNeverSeen: a drain that a controller creates and deletes before the informer has either waits for no night.
func TestNeverSeen(t *testing.T) {
	now := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	i, _ := holder()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	made := reconcile.NewDrainStore(store, func() string { return "99" }, i)
	d := drainOf("node-1", now.Add(-time.Hour))
	night, _ := windows.Parse("22:00-05:00")
	d.Spec.Windows = []v1alpha1.Window{night}
	made.Wrote(d, now)
	made.Deleted(d, now)
	now = now.Add(24 * time.Hour)
	made.All(now)
	if n := len(hitBegun(i, now, now.Add(10*time.Hour)).Pods); n != 0 {
		t.Errorf("%d pods count in the next night of a drain that was deleted a day before; kept: %d", n, len(i.beginnings.seen))
	}
}

// TestNoonAtNight: what began in the morning does not count in the night.
func TestNoonAtNight(t *testing.T) {
	now := time.Date(2000, 1, 1, 6, 30, 0, 0, time.UTC)
	i := &Estimator{Index: &usage.Index{}}
	hold(i, "team", "a", names("a", 12)...)
	hold(i, "team", "b", names("b", 12)...)
	hold(i, "team", "c", names("c", 5)...)
	i.Stored(drainOf("a", now), now)
	night, _ := windows.Parse("22:00-05:00")
	b := drainOf("b", now.Add(-2*time.Hour))
	b.Spec.Windows = []v1alpha1.Window{night}
	i.Stored(b, now)
	morning, _ := windows.Parse("06:00-08:00")
	w := guard.Window{Length: guard.DefaultWindow, Thresholds: guard.DefaultThresholds()}
	hit := i.Index.ImpactOn(ids(drainOf("c", now).Spec.Devices), nil).Hit()
	step := guard.Step{Object: "DeviceDrain c", Does: "the drain of c", Hit: hit, Annotate: "the roll", Begins: windows.Begins([]v1alpha1.Window{morning, night}, now)}
	if why, until := w.Refuse(now, step, i.Begun(now, w.Length)); why != "" {
		t.Error(why, until)
	}
}

// names are so many names of pods.
func names(of string, count int) (all []string) {
	for n := range count {
		all = append(all, fmt.Sprintf("%s-%d", of, n))
	}
	return all
}
