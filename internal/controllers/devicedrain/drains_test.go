package devicedrain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// TestPhases: the rules first, ten seconds for the scheduler and one for the fraction of a second, one pod a second, drained;
// with few writes, and an event for each phase.
func TestPhases(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 3 {
				p.pod("web", i, "")
			}
		})
		p.drain("firmware", 3, nil)
		p.pass(5 * time.Second)
		p.expect("firmware", "Cordoned=False WaitingForScheduler", "Draining=False Cordoning", "Blocked=False NotBlocked", "Drained=False PodsRemain")
		p.pass(6 * time.Second)
		p.expect("firmware", "Cordoned=True Cordoned", "Draining=True Evicting")
		p.pass(time.Minute)
		p.expect("firmware", "Cordoned=True Cordoned", "Draining=False Drained", "Drained=True Drained")
		if _, at := p.went(); !slices.Equal(at, []int{11, 12, 13}) {
			t.Errorf("evicted after %v s", at)
		}
		if n := p.get("firmware").Status.Counts; n.Evicted != 3 || n.Claims != 0 {
			t.Errorf("counts %+v", n)
		}
		statuses := 0
		for _, call := range p.calls {
			if call == "status" {
				statuses++
			}
		}
		if len(p.rules) != 3 || statuses > 12 {
			t.Errorf("%d rules, %d writes of the status: %v", len(p.rules), statuses, p.calls)
		}
		var reasons []string
		for _, e := range p.said() {
			reasons = append(reasons, strings.Fields(e)[1])
		}
		if want := []string{"Cordoned", "Evicting", "DeviceDrain", "DeviceDrain", "DeviceDrain", "Drained"}; !slices.Equal(reasons, want) {
			t.Errorf("events %v, want %v", reasons, want)
		}
		calls := len(p.calls)
		p.pass(time.Hour)
		if len(p.calls) != calls {
			t.Errorf("an hour later it asks for %v", p.calls[calls:])
		}
	})
}

// TestKilledInEveryCall kills the controller before and after each of its calls: in every
// phase, between any two writes. No pod is evicted twice, the counts are right, the devices
// are free in the end, and the cordon is lifted.
func TestKilledInEveryCall(t *testing.T) {
	killedInEveryCall(t, func(p *plane) {
		p.do(func() {
			for i := range 4 {
				p.pod("web", i%2, "")
			}
			p.budget("web", "web", 2)
			p.replace = func(*corev1.Pod) { p.pod("web", 9, "") }
		})
		p.drain("firmware", 2, func(s *v1alpha1.DeviceDrainSpec) {
			s.EvictionsPerMinute, s.AtEnd = new(int32(120)), v1alpha1.EndUncordon
		})
	})
}

// killedInEveryCall lets a controller carry out drains of four pods without a fault first, then
// ends one before and after each call that it made, and starts the next.
func killedInEveryCall(t *testing.T, drains func(*plane)) {
	t.Helper()
	calls := 1
	for at := 0; at <= calls; at++ {
		for _, before := range []bool{true, false} {
			inPlane(t, func(p *plane) {
				p.killAt, p.killBefore = at, before
				drains(p)
				p.pass(4 * time.Minute)
				evicted := 0
				for name := range p.drains {
					p.expect(name, "Drained=True Drained", "Cordoned=False Uncordoned")
					evicted += int(p.get(name).Status.Counts.Evicted)
				}
				if order, _ := p.went(); evicted != 4 || len(order) != 4 || len(p.rules) != 0 {
					t.Errorf("killed at call %d of %v: %d counted, %v evicted, %d rules", at, p.calls, evicted, order, len(p.rules))
				}
				if at == 0 {
					calls = len(p.calls)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
	if calls < 10 {
		t.Errorf("only %d calls were tried", calls)
	}
}

// TestBackoff: the replacement uses the shared claim again. It is left alone for 5 minutes,
// 10, 20, and an hour at most; also by a controller that has started again.
func TestBackoff(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			p.pod("web", 0, "shared")
			p.replace = func(*corev1.Pod) { p.pod("web", 0, "shared") }
		})
		p.drain("firmware", 1, nil)
		p.pass(time.Minute)
		p.expect("firmware", "Blocked=True ClaimReused")
		p.pass(6 * time.Minute)
		p.stop()
		p.start()
		p.pass(3 * time.Hour)
		_, at := p.went()
		var pauses []int
		for i := range at[1:] {
			pauses = append(pauses, (at[i+1]-at[i]+30)/60)
		}
		if want := []int{5, 10, 20, 40, 60}; !slices.Equal(pauses[:min(len(pauses), 5)], want) {
			t.Errorf("tried again after %v minutes, want %v", pauses, want)
		}
		if n := p.get("firmware").Status.Attempts; len(n) != 1 {
			t.Errorf("attempts %+v", n)
		}
	})
}

// TestPace: rate, limits and order, over a restart.
func TestPace(t *testing.T) {
	t.Run("rate", func(t *testing.T) {
		inPlane(t, func(p *plane) {
			p.do(func() {
				for i := range 6 {
					p.pod("web", i, "")
				}
			})
			p.drain("firmware", 6, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new(int32(6)) })
			p.pass(25 * time.Second)
			p.stop()
			p.start()
			p.pass(time.Minute)
			if _, at := p.went(); !slices.Equal(at, []int{11, 21, 31, 41, 51, 61}) {
				t.Errorf("evicted after %v s", at)
			}
		})
	})
	t.Run("limits", func(t *testing.T) {
		inPlane(t, func(p *plane) {
			p.do(func() {
				p.namespaceOf = map[string]string{"b": "other"}
				for i := range 8 {
					p.pod([]string{"a", "b"}[i%2], i, "")
				}
			})
			p.drain("firmware", 8, func(s *v1alpha1.DeviceDrainSpec) {
				s.EvictionsPerMinute, s.MaxPerNamespace = new(int32(6000)), new(int32(1))
			})
			p.pass(9 * time.Second)
			p.pass(30 * time.Second)
			p.expect("firmware", "Drained=True Drained")
			if p.highestLeaving["ml"] != 1 || p.highestLeaving["other"] != 1 {
				t.Errorf("at a time left %v", p.highestLeaving)
			}
		})
	})
	t.Run("limit of a node", func(t *testing.T) {
		inPlane(t, func(p *plane) {
			p.do(func() {
				for i := range 8 {
					p.pod("a", i, "")
				}
			})
			p.drain("firmware", 8, func(s *v1alpha1.DeviceDrainSpec) {
				s.EvictionsPerMinute, s.MaxPerNode = new(int32(6000)), new(int32(2))
			})
			p.pass(time.Minute)
			p.expect("firmware", "Drained=True Drained")
			if p.highestLeaving["ml"] != 2 {
				t.Errorf("at a time left %v", p.highestLeaving)
			}
		})
	})
	t.Run("order", func(t *testing.T) {
		inPlane(t, func(p *plane) {
			p.do(func() {
				important := p.pod("a", 0, "").DeepCopy()
				important.Spec.Priority = new(int32(1000))
				p.storePod(important)
				for i, owner := range []string{"a", "a", "b", "b"} {
					p.pod(owner, i+1, "")
				}
			})
			p.drain("firmware", 5, nil)
			p.pass(time.Minute)
			order, _ := p.went()
			for i := range order {
				order[i], _, _ = strings.Cut(order[i], "-")
			}
			if want := []string{"a", "b", "a", "b", "a"}; !slices.Equal(order, want) {
				t.Errorf("order %v, want %v", order, want)
			}
		})
	})
}

// TestWrites: at any rate, while a budget blocks and lets go, a status is written at most once
// a second, and evictions keep their rate. A replacement takes two seconds.
func TestWrites(t *testing.T) {
	for rate, seconds := range map[int32]int{6000: 22, 60: 30, 40: 40, 17: 60} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			inPlane(t, func(p *plane) {
				p.do(func() {
					for i := range 12 {
						p.pod([]string{"a", "b"}[i%2], i, "")
					}
					p.budget("b", "b", 5)
					p.replace = func(gone *corev1.Pod) { p.pod(gone.Labels["app"], 14, "") }
				})
				p.drain("firmware", 12, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = &rate })
				p.pass(5 * time.Minute)
				p.expect("firmware", "Drained=True Drained")
				for i := 1; i < len(p.writes); i++ {
					if gap := p.writes[i] - p.writes[i-1]; gap < time.Second {
						t.Errorf("two writes within %s", gap)
					}
				}
				_, at := p.went()
				if len(at) != 12 || at[11] > seconds {
					t.Errorf("evicted after %v s, want the last by %d s", at, seconds)
				}
			})
		})
	}
}

// TestSteered: a dry run does nothing; a pause stops evictions at once and keeps the
// cordon, and what follows goes on.
func TestSteered(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 4 {
				p.pod("web", i, "")
			}
		})
		p.drain("firmware", 4, func(s *v1alpha1.DeviceDrainSpec) { s.DryRun = true })
		p.pass(time.Minute)
		p.expect("firmware", "Cordoned=False DryRun", "Draining=False DryRun", "Drained=False DryRun")
		if order, _ := p.went(); len(order)+len(p.rules) > 0 {
			t.Errorf("a dry run evicted %v and made %d rules", order, len(p.rules))
		}
		p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.DryRun = false })
		p.pass(11500 * time.Millisecond)
		p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.Paused = true })
		before, _ := p.went()
		p.pass(time.Minute)
		p.expect("firmware", "Cordoned=True Cordoned", "Draining=False Paused")
		if order, _ := p.went(); len(order) != len(before) || len(order) == 0 || len(order) == 4 || len(p.rules) != 4 {
			t.Errorf("evicted %v, then %v; %d rules", before, order, len(p.rules))
		}
		p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.Paused = false })
		p.pass(10 * time.Second)
		p.expect("firmware", "Drained=True Drained")
	})
}

// TestDeadline: Delete deletes, with the UID, whatever budgets say; Keep stops; Fail gives
// up, and lifts the cordon where the drain says so.
func TestEscalation(t *testing.T) {
	for action, want := range map[v1alpha1.DeadlineAction][]string{
		v1alpha1.DeadlineDelete: {"Drained=True Drained", "Cordoned=False Uncordoned"},
		v1alpha1.DeadlineKeep:   {"Draining=False DeadlineExceeded", "Drained=False PodsRemain", "Cordoned=True Cordoned"},
		v1alpha1.DeadlineFail:   {"Failed=True DeadlineExceeded", "Cordoned=False Uncordoned"},
	} {
		t.Run(string(action), func(t *testing.T) {
			inPlane(t, func(p *plane) {
				p.do(func() {
					p.pod("web", 0, "")
					p.budget("web", "web", 1)
				})
				p.drain("firmware", 1, func(s *v1alpha1.DeviceDrainSpec) {
					s.AtEnd = v1alpha1.EndUncordon
					s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Minute}, Action: action}
				})
				p.pass(59 * time.Second)
				p.expect("firmware", "Blocked=True BudgetBlocked")
				p.pass(30 * time.Second)
				p.expect("firmware", want...)
				deletes := action == v1alpha1.DeadlineDelete
				if n := p.get("firmware").Status.Counts; len(p.evicted) > 0 || (len(p.deleted) == 1) != deletes || (n.Deleted == 1) != deletes {
					t.Errorf("evicted %v, deleted %v, counts %+v", p.evicted, p.deleted, n)
				}
				if lifted := len(p.rules) == 0; lifted != (action != v1alpha1.DeadlineKeep) {
					t.Errorf("%d rules", len(p.rules))
				}
			})
		})
	}
}

// TestAnswers: the possible answers to an eviction, each with its pause; only evicted pods
// are counted.
func TestAnswers(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		err    error
		reason string
		pause  int
	}{
		"too many requests": {apierrors.NewTooManyRequests("slow down", 20), "EvictionRefused", 20},
		"forbidden":         {apierrors.NewForbidden(pods, "web", fmt.Errorf("no right")), "EvictionRefused", 30},
		"invalid":           {apierrors.NewBadRequest("more than one budget"), "EvictionRefused", 30},
		"no answer":         {fmt.Errorf("connection reset"), "EvictionRefused", 5},
		"timeout":           {apierrors.NewTimeoutError("too slow", 1), "EvictionRefused", 5},
	} {
		t.Run(name, func(t *testing.T) {
			inPlane(t, func(p *plane) {
				p.do(func() { p.refuse[p.pod("web", 0, "").Name] = tt.err })
				p.drain("firmware", 1, nil)
				p.pass(12 * time.Second)
				p.expect("firmware", "Blocked=True "+tt.reason)
				if n := p.get("firmware").Status.Counts.Evicted; n != 0 {
					t.Errorf("%d counted", n)
				}
				p.do(func() { clear(p.refuse) })
				p.pass(time.Minute)
				p.expect("firmware", "Drained=True Drained")
				if _, at := p.went(); len(at) != 1 || at[0] < 10+tt.pause || at[0] > 12+tt.pause {
					t.Errorf("evicted after %v s, want %d", at, 10+tt.pause)
				}
			})
		})
	}
}

// TestTwoDrains share the devices: each pod goes once, and counts for one of them.
func TestTwoDrains(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 4 {
				p.pod("web", i, "")
			}
		})
		p.drain("a", 4, nil)
		p.drain("b", 4, func(s *v1alpha1.DeviceDrainSpec) { s.AtEnd = v1alpha1.EndUncordon })
		p.pass(time.Minute)
		p.expect("a", "Drained=True Drained")
		p.expect("b", "Drained=True Drained")
		order, _ := p.went()
		if n := p.get("a").Status.Counts.Evicted + p.get("b").Status.Counts.Evicted; n != 4 || len(order) != 4 || len(p.rules) != 4 {
			t.Errorf("%d counted, %v evicted, %d rules", n, order, len(p.rules))
		}
	})
}

// TestLateIndex: the index of who holds what shows a pod for longer than the informer does;
// no pod is evicted twice for that.
func TestLateIndex(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 4 {
				p.pod("web", i, "")
			}
			p.lag = 3 * time.Second
		})
		p.drain("firmware", 4, nil)
		p.pass(time.Minute)
		p.expect("firmware", "Drained=True Drained")
		order, _ := p.went()
		if n := p.get("firmware").Status.Counts.Evicted; n != 4 || len(order) != 4 {
			t.Errorf("%d counted, %v evicted", n, order)
		}
		p.lag = 0
	})
}

// TestConflict: a status that another writer has changed is computed again, and no pod is
// evicted before it is written.
func TestConflict(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			p.pod("web", 0, "")
			p.statusConflicts = 5
		})
		p.drain("firmware", 1, nil)
		p.pass(time.Minute)
		p.expect("firmware", "Drained=True Drained")
		if order, _ := p.went(); len(order) != 1 {
			t.Errorf("evicted %v", order)
		}
	})
}

// TestRules: rules that are deleted, changed or disowned by hand, those of a deleted drain,
// and those that cannot be written.
func TestRules(t *testing.T) {
	spoil := map[string]func(p *plane, name string){
		"deleted": func(p *plane, name string) { p.dropRule(name) },
		"changed": func(p *plane, name string) {
			rule := p.rules[name].DeepCopy()
			rule.Spec.DeviceSelector.Device = new("gpu-9")
			p.storeRule(rule)
		},
		"disowned": func(p *plane, name string) {
			rule := p.rules[name].DeepCopy()
			rule.Labels, rule.Annotations = nil, nil
			p.storeRule(rule)
		},
	}
	for how, spoil := range spoil {
		t.Run(how, func(t *testing.T) {
			inPlane(t, func(p *plane) {
				p.do(func() {
					for i := range 4 {
						p.pod("web", i%2, "")
					}
				})
				p.drain("firmware", 2, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new(int32(30)) })
				p.pass(11 * time.Second)
				before, _ := p.went()
				p.do(func() {
					for name := range p.rules {
						spoil(p, name)
						break
					}
				})
				p.pass(9 * time.Second)
				if order, _ := p.went(); len(before) != 1 || len(order) != 1 {
					t.Errorf("evicted %v, and then %v before the scheduler observed the rule", before, order)
				}
				p.expect("firmware", "Cordoned=False WaitingForScheduler")
				p.pass(time.Minute)
				p.expect("firmware", "Drained=True Drained")
				for name, rule := range p.rules {
					if of, uid := drain.OwnerOf(rule); of != "firmware" || uid != "drain-9" && uid == "" || *rule.Spec.DeviceSelector.Device == "gpu-9" {
						t.Errorf("rule %s: %+v of %s", name, rule.Spec, of)
					}
				}
			})
		})
	}
	t.Run("not served", func(t *testing.T) {
		inPlane(t, func(p *plane) {
			p.do(func() {
				p.notServed = true
				p.pod("web", 0, "")
			})
			p.drain("firmware", 1, nil)
			p.pass(time.Minute)
			p.expect("firmware", "Blocked=True CannotCordon", "Draining=False CannotCordon")
			tries := 0
			for _, call := range p.calls {
				if call == "create rule" {
					tries++
				}
			}
			if order, _ := p.went(); len(order) > 0 || tries > 6 {
				t.Errorf("evicted %v; tried %d times to write a rule", order, tries)
			}
			p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.WithoutCordon = true })
			p.pass(time.Minute)
			p.expect("firmware", "Drained=True Drained")
		})
	})
}

// TestGone: deleting a drain lifts its cordon, also while no controller runs. Deleting the
// type does not, and is reported.
func TestGone(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *plane)
		kept   string
	}{
		"drain":               {func(*plane) {}, ""},
		"type":                {func(p *plane) { p.definition = nil }, "its type was deleted:"},
		"type, deleting":      {func(p *plane) { p.definition.SetDeletionTimestamp(new(metav1.Now())) }, "its type is being deleted"},
		"type, created again": {func(p *plane) { p.definition.SetCreationTimestamp(metav1.NewTime(time.Now().Add(time.Second))) }, "and created again"},
		"type, created again in the second of the rule": {func(p *plane) {
			for _, rule := range p.rules {
				p.definition.SetCreationTimestamp(rule.CreationTimestamp)
			}
		}, "and created again"},
	} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, running %v", name, running), func(t *testing.T) {
				inPlane(t, func(p *plane) {
					p.drain("firmware", 2, nil)
					p.pass(20 * time.Second)
					p.said()
					if !running {
						p.stop()
					}
					p.do(func() {
						tt.change(p)
						p.sources["drains"].Delete(p.drains["firmware"].DeepCopy())
						delete(p.drains, "firmware")
					})
					if !running {
						p.start()
					}
					p.pass(time.Hour)
					said := p.said()
					if p.definitionReads != 1 {
						t.Errorf("the type is read %d times for 2 rules of a drain", p.definitionReads)
					}
					if tt.kept == "" && (len(p.rules) > 0 || len(said) > 0) {
						t.Errorf("%d rules are left; events %q", len(p.rules), said)
					}
					if tt.kept != "" && (len(p.rules) != 2 || len(said) != 2 || !strings.Contains(said[0], tt.kept) || !strings.Contains(said[0], "kubectl delete devicetaintrule drain-firmware-")) {
						t.Errorf("%d rules are left; events %q", len(p.rules), said)
					}
				})
			})
		}
	}
}

// TestBreaker: a drain that hits more than the thresholds, which it did not when it began,
// stops and reports what lets it continue.
func TestBreaker(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.stop()
		p.thresholds = guard.Thresholds{Pods: 4, Namespaces: 1, Percent: 100}
		p.start()
		p.do(func() {
			for range 3 {
				p.pod("web", 0, "")
			}
		})
		p.drain("firmware", 1, nil)
		p.pass(5 * time.Second)
		p.expect("firmware", "Blocked=False NotBlocked")
		p.do(func() {
			for range 3 {
				p.pod("web", 0, "")
			}
		})
		p.pass(time.Minute)
		p.expect("firmware", "Blocked=True AboveThreshold", "Draining=False AboveThreshold")
		if order, _ := p.went(); len(order) > 0 {
			t.Errorf("evicted %v", order)
		}
		p.do(func() {
			d := p.drains["firmware"].DeepCopy()
			d.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=6"}
			p.storeDrain(d)
		})
		p.pass(time.Minute)
		p.expect("firmware", "Drained=True Drained")
	})
}

// TestEvents: a budget that blocks and lets go with every pod is one event in five minutes.
func TestEvents(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 8 {
				p.pod("web", i, "")
			}
			p.budget("web", "web", 7)
			p.replace = func(*corev1.Pod) { p.pod("web", 15, "") }
		})
		p.drain("firmware", 8, nil)
		p.pass(5 * time.Minute)
		p.expect("firmware", "Drained=True Drained")
		blocked := 0
		for _, e := range p.said() {
			if strings.HasPrefix(e, "Warning BudgetBlocked") {
				blocked++
			}
		}
		if blocked != 1 {
			t.Errorf("%d events about the budget", blocked)
		}
	})
}

// TestClockOfTheFuture: the last eviction was written by a controller whose clock was an hour
// ahead. The drain goes on at its rate and does not wait for that hour.
func TestClockOfTheFuture(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 3 {
				p.pod("web", i, "")
			}
		})
		p.drain("firmware", 3, func(s *v1alpha1.DeviceDrainSpec) { s.Paused = true })
		p.stop()
		p.do(func() {
			d := p.drains["firmware"].DeepCopy()
			d.Spec.Paused = false
			d.Status.LastEvictionTime = &metav1.MicroTime{Time: time.Now().Add(time.Hour)}
			p.storeDrain(d)
		})
		p.start()
		p.pass(10 * time.Minute)
		if order, _ := p.went(); len(order) != 3 {
			t.Errorf("evicted %v in ten minutes, want 3 pods", order)
		}
	})
}
