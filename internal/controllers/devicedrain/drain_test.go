package devicedrain_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/targets"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// TestDrain: cordon, wait, evict at the rate, be drained; the cordon holds.
func TestDrain(t *testing.T) {
	w := newWorld(t, 3, nil)
	for i := range 3 {
		w.pod("web", nil, i)
	}
	w.step(never)
	w.expect("Cordoned=False Cordoning", "Draining=False Cordoning", "Blocked=False NotBlocked", "Drained=False PodsRemain")
	w.run(9*time.Second, never)
	w.expect("Cordoned=False WaitingForScheduler")
	if len(w.times) > 0 {
		t.Errorf("evicted before the scheduler observed the cordon: %v", w.times)
	}
	w.run(time.Minute, never)
	w.expect("Cordoned=True Cordoned", "Draining=False Drained", "Blocked=False NotBlocked", "Drained=True Drained")
	if len(w.times) != 3 || w.times[1].Sub(w.times[0]) < time.Second {
		t.Errorf("evicted at %v, want 3 at one a second", w.times)
	}
	if n := w.drain.Status.Counts; n.Evicted != 3 || n.Devices != 3 || n.Claims != 0 || n.Remaining != 0 {
		t.Errorf("counts %+v", n)
	}
	w.run(time.Hour, never)
	if len(w.rules) != 3 {
		t.Errorf("%d rules are left, want 3", len(w.rules))
	}
}

// TestUncordon: the rules go when the drain is over, and not before.
func TestUncordon(t *testing.T) {
	w := newWorld(t, 2, func(s *v1alpha1.DeviceDrainSpec) { s.AtEnd = v1alpha1.EndUncordon })
	w.pod("web", nil, 0)
	w.run(time.Minute, never)
	w.expect("Cordoned=False Uncordoned", "Drained=True Drained")
	if len(w.rules) > 0 {
		t.Errorf("%d rules are left", len(w.rules))
	}
}

// TestBudget: never fewer ready than the budget requires; the drain names the budget that
// it waits for, and continues.
func TestBudget(t *testing.T) {
	w := newWorld(t, 3, nil)
	for i := range 3 {
		w.pod("web", nil, i)
	}
	w.budget("web", "web", 2)
	w.replace = func(w *world, gone *corev1.Pod, _ *resourceapi.ResourceClaim) { w.pod(gone.Labels["app"], nil, 7) }
	w.run(12*time.Second, never)
	w.expect("Blocked=True BudgetBlocked", "Draining=True Evicting")
	if m := w.condition("Blocked").Message; !strings.Contains(m, "ml/web allows no eviction") || !strings.Contains(m, "ReplicaSet/web") {
		t.Errorf("message %q", m)
	}
	w.run(time.Minute, never)
	w.expect("Drained=True Drained")
	if len(w.times) != 3 {
		t.Errorf("%d evictions", len(w.times))
	}
}

// TestReused: a shared claim goes to the replacement: the drain says by whom, and leaves
// it alone until the back-off is over, which doubles.
func TestReused(t *testing.T) {
	w := newWorld(t, 1, nil)
	shared := w.claim("shared", 0)
	for range 3 {
		w.pod("web", shared, 0)
	}
	w.budget("web", "web", 2)
	replace := func(w *world, gone *corev1.Pod, c *resourceapi.ResourceClaim) { w.pod(gone.Labels["app"], c, 0) }
	w.replace = replace
	w.run(4*time.Minute, never)
	w.expect("Blocked=True ClaimReused", "Drained=False PodsRemain")
	if m := w.condition("Blocked").Message; !strings.Contains(m, "ReplicaSet/web") || !strings.Contains(m, "ml/shared") {
		t.Errorf("message %q", m)
	}
	if len(w.times) != 1 {
		t.Errorf("evicted at %v, want once", w.times)
	}
	w.run(20*time.Minute, never)
	if len(w.times) != 3 || w.times[1].Sub(w.times[0]) < 5*time.Minute || w.times[2].Sub(w.times[1]) < 10*time.Minute {
		t.Errorf("evicted at %v, want after 5 and 10 minutes", w.times)
	}
	// The owner scales down: the claim is released, and the drain is done.
	w.replace = func(*world, *corev1.Pod, *resourceapi.ResourceClaim) {}
	for _, p := range w.pods {
		p.DeletionTimestamp = new(w.at())
	}
	w.run(time.Minute, never)
	w.expect("Drained=True Drained")
}

// TestTolerated: a replacement that tolerates the cordon is left alone for a while.
func TestTolerated(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.pod("monitor", nil, 0)
	w.replace = func(w *world, gone *corev1.Pod, _ *resourceapi.ResourceClaim) {
		w.pod(gone.Labels["app"], nil, 0)
		w.claims[len(w.claims)-1].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	}
	w.run(4*time.Minute, never)
	w.expect("Blocked=True Tolerated", "Drained=False PodsRemain")
	if m := w.condition("Blocked").Message; !strings.Contains(m, "ReplicaSet/monitor") {
		t.Errorf("message %q", m)
	}
	if len(w.times) != 1 {
		t.Errorf("evicted at %v, want once", w.times)
	}
	w.run(3*time.Minute, never)
	if len(w.times) != 2 {
		t.Errorf("evicted at %v, want once more after the back-off", w.times)
	}
	w.run(7*time.Minute, never)
	if len(w.times) != 2 {
		t.Errorf("evicted at %v, want the back-off to double", w.times)
	}
}

// TestReturnsLate: devices that are free for a moment are not drained: the replacement of the
// evicted pod tolerates the cordon, and gets a device two seconds later.
func TestReturnsLate(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.pod("monitor", nil, 0)
	for len(w.times) == 0 || len(w.claims) > 0 {
		w.run(time.Second, never)
	}
	w.run(2*time.Second, never)
	w.expect("Drained=False WaitingForReturns", "Draining=False WaitingForReturns")
	w.pod("monitor", nil, 0)
	w.claims[len(w.claims)-1].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	w.run(time.Minute, never)
	w.expect("Blocked=True Tolerated", "Drained=False PodsRemain")
	w.pods, w.claims = nil, nil
	w.run(time.Minute, never)
	w.expect("Drained=True Drained")
}

// TestReturnsAfterPause: five seconds pass between the last claim and Drained in full, also when no pod
// was being evicted at the end.
func TestReturnsAfterPause(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.pod("monitor", nil, 0)
	w.pod("monitor", nil, 1)
	for len(w.times) == 0 {
		w.run(100*time.Millisecond, never)
	}
	w.drain.Spec.Paused = true
	w.run(time.Minute, never)
	w.expect("Draining=False Paused", "Drained=False PodsRemain")
	w.run(700*time.Millisecond, never)
	w.pods, w.claims = nil, nil
	free := w.now
	w.run(time.Minute, never)
	w.expect("Drained=True Drained")
	if since := w.condition("Drained").LastTransitionTime; since.Sub(free) < 4500*time.Millisecond || since.Sub(free) > 10*time.Second {
		t.Errorf("Drained %s after the last claim has gone, want 5 s", since.Sub(free))
	}
}

// TestReasons: everything else that blocks a pod has a reason of its own.
func TestReasons(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(w *world)
		want    string
		message string
	}{
		"no controller": {func(w *world) { w.pod("", nil, 0) }, "Blocked=True NoController", "podsWithoutController"},
		"two budgets": {func(w *world) {
			w.pod("web", nil, 0)
			w.budget("a", "web", 0)
			w.budget("b", "web", 0)
		}, "Blocked=True MoreThanOneBudget", "(a, b)"},
		"two budgets, pending": {func(w *world) {
			w.pod("web", nil, 0).Status.Phase = corev1.PodPending
			w.budget("a", "web", 0)
			w.budget("b", "web", 0)
		}, "Blocked=False NotBlocked", ""},
		"budget of pods that are not ready": {func(w *world) {
			w.pod("web", nil, 0).Status.Conditions = nil
			w.budget("a", "web", 1).Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
		}, "Blocked=False NotBlocked", ""},
		"a pod group": {func(w *world) {
			c := w.claim("group", 0)
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "training", UID: "group"}}
		}, "Blocked=True ClaimReserved", "podgroups/training"},
		"no pod, but allocated": {func(w *world) { w.claim("left", 0) }, "Drained=False ClaimsRemain", ""},
		"rules are not served":  {func(w *world) { w.pod("web", nil, 0); w.cannot = "DeviceTaintRules are not served" }, "Blocked=True CannotCordon", "withoutCordon"},
		"too much":              {func(w *world) { w.pod("web", nil, 0); w.limit = guard.Thresholds{} }, "Blocked=True AboveThreshold", `acknowledged-impact: "pods<=1,namespaces<=1"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			tt.prepare(w)
			w.run(11*time.Second, never)
			w.expect(tt.want)
			if m := w.condition("Blocked").Message; !strings.Contains(m, tt.message) {
				t.Errorf("message %q", m)
			}
			if strings.HasPrefix(tt.want, "Blocked=True") && len(w.times) > 0 {
				t.Error("evicted in spite of it")
			}
		})
	}
}

// TestAcknowledged: a higher ceiling lets it go on.
func TestAcknowledged(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.pod("web", nil, 0)
	w.limit = guard.Thresholds{}
	w.drain.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=1,namespaces<=1"}
	w.run(time.Minute, never)
	w.expect("Drained=True Drained")
}

// TestWithoutCordon: it continues where the spec allows it, and does not evict pods that
// return.
func TestWithoutCordon(t *testing.T) {
	w := newWorld(t, 1, func(s *v1alpha1.DeviceDrainSpec) { s.WithoutCordon = true })
	w.cannot = "DeviceTaintRules are not served"
	w.pod("web", nil, 0)
	w.pass(5 * time.Second)
	w.replace = func(w *world, gone *corev1.Pod, _ *resourceapi.ResourceClaim) { w.pod(gone.Labels["app"], nil, 0) }
	w.run(time.Minute, never)
	w.expect("Cordoned=False CannotCordon", "Blocked=True Reallocated")
	if len(w.times) != 1 {
		t.Errorf("evicted at %v", w.times)
	}
	w.replace = func(*world, *corev1.Pod, *resourceapi.ResourceClaim) {}
	w.run(10*time.Minute, never)
	w.expect("Drained=True Drained")
}

// TestDeadline: three actions at the deadline.
func TestDeadline(t *testing.T) {
	for action, want := range map[v1alpha1.DeadlineAction][]string{
		v1alpha1.DeadlineKeep:   {"Draining=False DeadlineExceeded", "Drained=False PodsRemain", "Cordoned=True Cordoned"},
		v1alpha1.DeadlineDelete: {"Drained=True Drained"},
		v1alpha1.DeadlineFail:   {"Failed=True DeadlineExceeded", "Drained=False PodsRemain"},
	} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t, 2, func(s *v1alpha1.DeviceDrainSpec) {
				s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Minute}, Action: action}
			})
			w.pod("web", nil, 0)
			w.pod("", nil, 1)
			w.budget("web", "web", 1)
			w.run(59*time.Second, never)
			if len(w.times) > 0 {
				t.Errorf("evicted at %v", w.times)
			}
			w.run(time.Minute, never)
			w.expect(want...)
			if deleted := w.drain.Status.Counts.Deleted; (deleted == 2) != (action == v1alpha1.DeadlineDelete) {
				t.Errorf("%d deleted", deleted)
			}
		})
	}
}

// TestStops: pause and dry run evict no pods; a dry run does not cordon either.
func TestStops(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.DeviceDrainSpec)
		want   []string
		rules  int
	}{
		"paused":  {func(s *v1alpha1.DeviceDrainSpec) { s.Paused = true }, []string{"Draining=False Paused", "Cordoned=True Cordoned"}, 2},
		"dry run": {func(s *v1alpha1.DeviceDrainSpec) { s.DryRun = true }, []string{"Draining=False DryRun", "Drained=False DryRun", "Cordoned=False DryRun"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, tt.change)
			w.pod("web", nil, 0)
			w.run(time.Minute, never)
			w.expect(tt.want...)
			if len(w.times) > 0 || len(w.rules) != tt.rules {
				t.Errorf("evicted at %v, %d rules", w.times, len(w.rules))
			}
		})
	}
}

// TestRuleByHand: a rule that was deleted or changed is restored, and no pod is evicted
// until the scheduler has seen it.
func TestRuleByHand(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"deleted": func(w *world) { w.rules = w.rules[1:] },
		"changed": func(w *world) {
			w.rules[0] = w.rules[0].DeepCopy()
			w.rules[0].Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new(int32(30)) })
			for i := range 4 {
				w.pod("web", nil, i%2)
			}
			w.run(12*time.Second, never)
			before := len(w.times)
			spoil(w)
			w.run(9*time.Second, never)
			w.expect("Cordoned=False WaitingForScheduler", "Draining=False Cordoning")
			if before == 0 || len(w.times) != before || len(w.rules) != 2 {
				t.Errorf("%d evictions, then %d; %d rules", before, len(w.times), len(w.rules))
			}
			w.run(time.Minute, never)
			w.expect("Drained=True Drained")
		})
	}
}

// TestFractionOfRule: the time of a rule has no fraction of a second, and the first pod is evicted ten
// seconds after the rule was written.
func TestFractionOfRule(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.pod("web", nil, 0)
	w.pass(900 * time.Millisecond)
	written := w.now
	for len(w.times) == 0 && w.since() < time.Minute {
		w.step(never)
		w.pass(100 * time.Millisecond)
	}
	if len(w.times) != 1 || w.times[0].Sub(written) < 10*time.Second || w.times[0].Sub(written) > 11*time.Second {
		t.Errorf("the rule is written at %s, and a pod evicted at %s", written, w.times)
	}
}

// TestOrderAndLimits: low priority first, then one pod of each owner; no more than the
// limit at a time.
func TestOrderAndLimits(t *testing.T) {
	w := newWorld(t, 1, func(s *v1alpha1.DeviceDrainSpec) {
		s.MaxPerNode = new(int32(1))
		s.EvictionsPerMinute = new(int32(600))
	})
	important := w.pod("a", nil, 0)
	important.Spec.Priority = new(int32(1000))
	for _, owner := range []string{"a", "a", "b", "b"} {
		w.pod(owner, nil, 0)
	}
	var got []string
	for _, p := range drain.Decide(w.input()).Order {
		got = append(got, p.Labels["app"])
	}
	if want := []string{"a", "b", "a", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	var went []string
	for w.drain.Status.CompletionTime == nil && w.since() < 5*time.Minute {
		if d := w.step(never); len(d.Evict) > 0 {
			owner, _, _ := strings.Cut(d.Evict[0].Name, "-")
			went = append(went, owner)
		}
		leaving := 0
		for _, p := range w.pods {
			if p.DeletionTimestamp != nil {
				leaving++
			}
		}
		if leaving > 1 {
			t.Fatalf("%d pods leave at once", leaving)
		}
		w.pass(time.Second)
	}
	w.expect("Drained=True Drained")
	if want := []string{"a", "b", "a", "b", "a"}; !slices.Equal(went, want) {
		t.Errorf("went %v, want %v", went, want)
	}
}

// TestKilled: killed at random in every phase, with replacements elsewhere and a budget:
// the drain ends, no pod is evicted twice, the counts are right, the rate is kept.
func TestKilled(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, 5, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new([]int32{20, 60, 300}[r.IntN(3)]) })
		for i := range 20 {
			w.pod([]string{"a", "b"}[i%2], nil, i%5)
		}
		w.budget("a", "a", int32(r.IntN(10)))
		w.replace = func(w *world, gone *corev1.Pod, _ *resourceapi.ResourceClaim) {
			w.pod(gone.Labels["app"], nil, 5+r.IntN(5))
		}
		w.run(10*time.Minute, sometimes(r))
		w.expect("Drained=True Drained")
		if got := w.drain.Status.Counts.Evicted; got != 20 || len(w.times) != 20 {
			t.Errorf("seed %d: %d counted, %d evicted, want 20", seed, got, len(w.times))
		}
		rate := int(*w.drain.Spec.EvictionsPerMinute)
		for i := range w.times {
			if j := i + rate/10 + (rate+59)/60; j < len(w.times) && w.times[j].Sub(w.times[i]) < 5*time.Second {
				t.Errorf("seed %d: %d evictions in %s at %d a minute", seed, j-i, w.times[j].Sub(w.times[i]), rate)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestResolve(t *testing.T) {
	names := []v1alpha1.DeviceName{device(1)}
	for name, tt := range map[string]struct {
		found   patch.Selection
		unknown []v1alpha1.DeviceName
		spec    v1alpha1.UnknownDevices
		status  []v1alpha1.DrainDevices
		reason  string
	}{
		"held and gone":           {unknown: names, reason: v1alpha1.BlockedUnknownDevices},
		"held and gone, included": {unknown: names, spec: v1alpha1.UnknownInclude},
		"held and gone, excluded": {found: patch.Selection{Devices: names}, unknown: []v1alpha1.DeviceName{device(2)}, spec: v1alpha1.UnknownExclude},
		"found":                   {found: patch.Selection{Devices: names}},
		"remembered":              {status: drain.Group(names, func(drain.Pool) bool { return false })},
		"nothing":                 {reason: v1alpha1.BlockedNoDevices},
		"fails":                   {found: patch.Selection{Devices: names, Failures: patch.Failures{Devices: 1}}, reason: v1alpha1.BlockedSelector},
		"no such key":             {found: patch.Selection{Problems: []patch.Problem{{Message: "no"}}}, reason: v1alpha1.BlockedSelector},
		"too many":                {found: patch.Selection{Devices: make([]v1alpha1.DeviceName, 4097)}, reason: v1alpha1.BlockedTooManyDevices},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0, func(s *v1alpha1.DeviceDrainSpec) { s.Selector = &v1alpha1.DrainSelector{} })
			w.drain.Status.Devices, w.drain.Spec.UnknownDevices = tt.status, tt.spec
			got := drain.Resolve(w.drain, func(*v1alpha1.DrainSelector) targets.Found {
				return targets.Found{Selection: tt.found, Unknown: tt.unknown}
			}, nil)
			if got.Reason != tt.reason || tt.reason == "" && !slices.Equal(got.Names, names) {
				t.Errorf("got %+v", got)
			}
			d := drain.Decide(drain.Input{Drain: w.drain, Devices: got, Now: begin})
			w.drain.Status = d.Status
			if tt.reason != "" {
				w.expect("Blocked=True "+tt.reason, "Drained=False "+tt.reason)
			}
		})
	}
}
