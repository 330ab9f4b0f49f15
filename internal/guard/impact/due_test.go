package impact

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// dueAt is a rule on the eight devices of a node of a crowd that evicts from a time on.
func dueAt(node int, added time.Time) *resourceapi.DeviceTaintRule {
	rule := oneDevice(8*node, resourceapi.DeviceTaintEffectNoExecute)
	rule.Name, rule.Spec.DeviceSelector.Device, rule.Spec.Taint.TimeAdded = fmt.Sprint("node-", node), nil, &metav1.Time{Time: added}
	return rule
}

// writes is the request to create a rule, or to change the stored one.
func writes(t *testing.T, old, rule *resourceapi.DeviceTaintRule) admission.Request {
	t.Helper()
	request := evicting(nil, nil)
	request.Name, request.Object.Raw = rule.Name, encoded(t, rule)
	if old != nil {
		request.Operation, request.OldObject.Raw = admissionv1.Update, encoded(t, old)
	}
	return request
}

// TestRulesOfOneTime is an attack: rules with a later timeAdded, created one after the other so that each has left the
// window of the guard when the next one is created. They begin together.
func TestRulesOfOneTime(t *testing.T) {
	night := time.Date(2000, 1, 1, 22, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		added func(node int) time.Time
		pause time.Duration
		want  int
	}{
		"the same time":        {func(int) time.Time { return night }, 11 * time.Minute, 2}, // 16 pods
		"at once":              {func(int) time.Time { return night }, 0, 2},
		"minutes apart":        {func(node int) time.Time { return night.Add(time.Duration(node) * time.Minute) }, 11 * time.Minute, 2},
		"hours apart":          {func(node int) time.Time { return night.Add(time.Duration(node) * time.Hour) }, 11 * time.Minute, 6},
		"in the past":          {func(int) time.Time { return night.AddDate(0, 0, -2) }, 11 * time.Minute, 6},
		"at once, hours apart": {func(node int) time.Time { return night.Add(time.Duration(node) * time.Hour) }, 0, 6},
		"at once, in a year":   {func(int) time.Time { return night.AddDate(1, 0, 0) }, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := crowd(t, 1000)
				i.rules = true
				h := guardOf(t, i, v1alpha1.StewardConfiguration{})
				admitted := 0
				for node := range 6 {
					rule := dueAt(node, tt.added(node))
					if h.Handle(t.Context(), writes(t, nil, rule)).Allowed {
						admitted++
						if tt.pause > 0 {
							i.changed(nil, rule, time.Now())
						}
					}
					<-time.After(tt.pause)
				}
				if admitted != tt.want {
					t.Errorf("%d rules were admitted, want %d", admitted, tt.want)
				}
			})
		})
	}
}

// TestMovedRules is an attack: rules of different hours get one timeAdded, one after the other.
func TestMovedRules(t *testing.T) {
	for name, tt := range map[string]struct {
		to   func(node int) time.Time
		want int
	}{
		"to now":       {func(int) time.Time { return time.Now() }, 2},
		"to the past":  {func(int) time.Time { return time.Now().AddDate(-1, 0, 0) }, 2},
		"earlier":      {func(int) time.Time { return time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC) }, 2},
		"later":        {func(int) time.Time { return time.Date(2001, 1, 2, 0, 0, 0, 0, time.UTC) }, 2},
		"to new hours": {func(node int) time.Time { return time.Date(2001, 1, 2, node, 0, 0, 0, time.UTC) }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := crowd(t, 1000)
				h := guardOf(t, i, v1alpha1.StewardConfiguration{})
				admitted := 0
				var all []*resourceapi.DeviceTaintRule
				for node := range 6 {
					all = append(all, dueAt(node, time.Date(2000, 6, 1, node, 0, 0, 0, time.UTC)))
					i.changed(nil, all[node], time.Now())
				}
				for node, old := range all {
					rule := dueAt(node, tt.to(node))
					if h.Handle(t.Context(), writes(t, old, rule)).Allowed {
						admitted++
						i.changed(old, rule, time.Now())
					}
				}
				if admitted != tt.want {
					t.Errorf("%d rules were moved, want %d", admitted, tt.want)
				}
			})
		})
	}
}

// TestRuleComesDue: a rule counts at its timeAdded, also for a replica that starts, until it is stopped or the window is over.
func TestRuleComesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		due := time.Now().Add(3 * time.Hour)
		rule := dueAt(0, due)
		i.changed(nil, rule, time.Now())
		asks := func(i *Estimator, at time.Duration, want int) {
			t.Helper()
			<-time.After(time.Until(due.Add(at)))
			if n := podsBegun(i, time.Now()); n != want {
				t.Errorf("%s: %d pods count, want %d", at, n, want)
			}
		}
		asks(i, -2*time.Hour, 0)
		asks(i, -9*time.Minute, 8)
		status := rule.DeepCopy()
		status.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress", Status: metav1.ConditionFalse}}
		i.changed(rule, status, time.Now())
		asks(i, -time.Second, 8)
		for n := range 8 {
			i.Index.DeletePod("team-00", fmt.Sprintf("trainer-%05d", n))
		}
		asks(i, 5*time.Second, 8)
		again := crowd(t, 1000)
		again.changed(nil, rule, time.Now())
		i.changed(status, rule, time.Now())
		asks(i, 9*time.Minute, 8)
		asks(again, 9*time.Minute, 8)
		asks(i, 10*time.Minute, 0)
		asks(again, 10*time.Minute, 0)
	})
}

// TestStepByStep is an attack: a rule gets a timeAdded that is near both to its own and to those of others.
func TestStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		night := time.Date(2000, 1, 1, 22, 0, 0, 0, time.UTC)
		for node, minute := range []int{-5, 6, 6} {
			i.changed(nil, dueAt(node, night.Add(time.Duration(minute)*time.Minute)), time.Now())
		}
		if h.Handle(t.Context(), writes(t, dueAt(0, night.Add(-5*time.Minute)), dueAt(0, night.Add(4*time.Minute)))).Allowed {
			t.Error("three rules with 24 pods begin within two minutes")
		}
	})
}

// TestLeftWhenDue: pods that leave at the timeAdded of a rule count, whether or not a write was counted before.
func TestLeftWhenDue(t *testing.T) {
	now := time.Unix(1e9, 0)
	rule := oneDevice(0, resourceapi.DeviceTaintEffectNoExecute)
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}
	rule.Spec.Taint.TimeAdded = &metav1.Time{Time: now.Add(time.Hour)}
	for name, before := range map[string]bool{"read before the pod": true, "read after the pod": false} {
		i, pod := holder()
		claim := i.Index.Claim("team", "claim")
		if before {
			leave(i)
		}
		i.changed(nil, rule, now)
		if before {
			i.Index.SetClaim(claim)
			i.Index.SetPod(pod)
			podsBegun(i, now)
		}
		leave(i)
		if n := podsBegun(i, now.Add(time.Hour+time.Minute)); n != 1 {
			t.Errorf("%s: %d pods count, want 1", name, n)
		}
	}
}

// TestRuleThatWaitsIsStopped: a rule that is changed to None or deleted before its timeAdded counts no more.
func TestRuleThatWaitsIsStopped(t *testing.T) {
	now := time.Unix(1e9, 0)
	rule := dueAt(0, now.Add(time.Minute))
	none := rule.DeepCopy()
	none.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
	for name, stop := range map[string]func(*Estimator){
		"None":    func(i *Estimator) { i.changed(rule, none, now) },
		"deleted": func(i *Estimator) { i.Deleted(rule) },
	} {
		i := crowd(t, 64)
		i.changed(nil, rule, now)
		before := podsBegun(i, now)
		if stop(i); before != 8 || podsBegun(i, now) != 0 || len(i.beginnings.waiting) != 0 {
			t.Errorf("%s: %d pods count before, %d after", name, before, podsBegun(i, now))
		}
	}
}
