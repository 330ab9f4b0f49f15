package evictor

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

func nameOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (b *bubble) condition(rule, kind string) *metav1.Condition {
	b.Helper()
	r, err := b.ResourceV1().DeviceTaintRules().Get(b.Context(), rule, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == kind {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}

func (b *bubble) expectCondition(rule, want string) {
	b.Helper()
	got := "none"
	if c := b.condition(rule, "EvictionInProgress"); c != nil {
		got = fmt.Sprintf("%s %s %d %s", c.Status, c.Reason, c.ObservedGeneration, c.Message)
	}
	if got != want {
		b.Errorf("after %s the condition is: %s\nwant: %s", time.Since(b.begin), got, want)
	}
}

// TestRuleStatus is the life of a rule: a preview, the eviction of some pods now and
// of others later, the end.
func TestRuleStatus(t *testing.T) {
	objects := append(both(podOn("a", "now", "gpu-0")), sliceOf(1))
	objects = append(objects, both(podOn("b", "later", "gpu-0", tolerate(noExecute, ptr.To[int64](45))))...)
	objects = append(objects, both(podOn("b", "other", "gpu-1"))...)
	objects = append(objects, both(podOn("b", "never", "gpu-0", tolerate(noExecute, nil)))...)
	inBubble(t, full, objects, func(b *bubble) {
		rule := ruleOn("rule", "gpu-0", seconds(0))
		rule.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
		b.createRule(rule)
		b.pass(time.Second)
		b.expectCondition("rule", "False NoEffect 1 1 published device selected. 1 allocated device selected. 2 pods would be evicted in 2 different namespaces if the effect was NoExecute.")
		b.pass(29 * time.Second)
		b.updateRule("rule", func(r *resourceapi.DeviceTaintRule) {
			r.Spec.Taint.Effect = noExecute
			r.Spec.Taint.TimeAdded = seconds(30)
		})
		b.expect(deletions{"a/now": 30 * time.Second})
		b.pass(11 * time.Second)
		b.expectCondition("rule", "True PodsPendingEviction 2 1 pod needs to be evicted in 1 namespace. 1 pod evicted.")
		b.pass(30 * time.Second)
		b.expectCondition("rule", "True PodsPendingEviction 2 1 pod needs to be evicted in 1 namespace. 1 pod evicted.")
		b.pass(60 * time.Second)
		b.expectCondition("rule", "False Completed 2 2 pods evicted.")
		writes := b.calls("patch", "devicetaintrules/status")
		b.pass(24 * time.Hour)
		if more := b.calls("patch", "devicetaintrules/status") - writes; more != 0 || writes > 5 {
			t.Errorf("%d writes, and %d more where nothing happens", writes, more)
		}
	})
}

// TestNotStartedWaits: a rule without pods says so only after the wait, so that a caller
// that waits for the end does not continue too early.
func TestNotStartedWaits(t *testing.T) {
	inBubble(t, full, []runtime.Object{sliceOf(1)}, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(4 * time.Second)
		b.expectCondition("rule", "none")
		b.pass(7 * time.Second)
		b.expectCondition("rule", "False NotStarted 1 ")
	})
}

// TestLatePodWithinTheWait: the pod that the scheduler had on its way is counted first.
func TestLatePodWithinTheWait(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
	inBubble(t, full, []runtime.Object{sliceOf(1), claim}, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(3 * time.Second)
		b.do(b.CoreV1().Pods("ns").Create(b.Context(), pod, metav1.CreateOptions{}))
		b.pass(4 * time.Second)
		b.expectCondition("rule", "True PodsPendingEviction 1 1 pod needs to be evicted in 1 namespace.")
	})
}

func TestOtherEffect(t *testing.T) {
	inBubble(t, full, append(both(podOn("ns", "pod", "gpu-0")), sliceOf(1)), func(b *bubble) {
		rule := ruleOn("rule", "gpu-0", seconds(0))
		rule.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
		b.createRule(rule)
		b.expectCondition("rule", "False OtherEffect 1 Eviction only happens for the NoExecute effect.")
		b.pass(time.Hour)
		b.expect(nil)
	})
}

// TestPreviewFollows: unlike that of Kubernetes the preview keeps up with the cluster.
func TestPreviewFollows(t *testing.T) {
	objects := []runtime.Object{sliceOf(1)}
	for i := range 3 {
		objects = append(objects, both(podOn("ns", fmt.Sprint("pod-", i), fmt.Sprint("gpu-", i)))...)
	}
	inBubble(t, full, objects, func(b *bubble) {
		rule := ruleOn("rule", "", seconds(0))
		rule.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
		b.createRule(rule)
		b.pass(time.Second)
		b.expectCondition("rule", "False NoEffect 1 3 published devices selected. 3 allocated devices selected. 3 pods would be evicted in 1 namespace if the effect was NoExecute.")
		b.gone("ns", "pod-0")
		b.pass(11 * time.Second)
		b.expectCondition("rule", "False NoEffect 1 3 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 1 namespace if the effect was NoExecute.")
	})
}

// TestBug15Restart: what was reported before a restart is not taken back.
func TestBug15Restart(t *testing.T) {
	inBubble(t, full, append(both(podOn("ns", "pod", "gpu-0")), sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Minute)
		b.expectCondition("rule", "False Completed 1 1 pod evicted.")
		b.stop()
		writes := b.calls("patch", "devicetaintrules/status")
		b.start(full)
		b.pass(time.Hour)
		b.expectCondition("rule", "False Completed 1 1 pod evicted.")
		if more := b.calls("patch", "devicetaintrules/status") - writes; more != 0 {
			t.Errorf("%d writes after the restart", more)
		}
	})
}

// TestSupplementsOwnCondition: never the one of kube-controller-manager.
func TestSupplementsOwnCondition(t *testing.T) {
	objects := append(both(extended(podOn("ns", "missed", "gpu-0"))), both(podOn("ns", "plain", "gpu-0"))...)
	inBubble(t, Options{Mode: ModeSupplement}, append(objects, sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(2 * time.Second)
		if c := b.condition("rule", "dra-steward.io/EvictionInProgress"); c == nil || c.Message != "1 pod needs to be evicted in 1 namespace." {
			t.Errorf("condition %+v", c)
		}
		b.pass(time.Minute)
		b.expectCondition("rule", "none")
		if c := b.condition("rule", "dra-steward.io/EvictionInProgress"); c == nil || c.Message != "1 pod evicted." {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestRefusedStatus: a status that the API server refuses is written again, each time later, and logged
// once for each error. It is written soon after it is allowed, and at once for another spec.
func TestRefusedStatus(t *testing.T) {
	options := full
	var logged atomic.Int32
	options.Logger = funcr.New(func(_, line string) {
		if strings.Contains(line, "Cannot write the status") {
			logged.Add(1)
		}
	}, funcr.Options{})
	inBubble(t, options, append(both(podOn("ns", "pod", "gpu-0")), sliceOf(1)), func(b *bubble) {
		resource := resourceapi.Resource("devicetaintrules")
		var refusal atomic.Pointer[apierrors.StatusError]
		refusal.Store(apierrors.NewForbidden(resource, "rule", errors.New("denied")))
		b.PrependReactor("patch", "devicetaintrules", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := refusal.Load()
			return err != nil, nil, err
		})
		expect := func(least, most int, logs int32) {
			t.Helper()
			if writes := b.calls("patch", "devicetaintrules/status"); writes < least || writes > most || logged.Load() != logs {
				t.Errorf("%d writes, want %d to %d; %d logged, want %d", writes, least, most, logged.Load(), logs)
			}
			b.ClearActions()
		}
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(10 * time.Second)
		expect(3, 6, 1)
		b.pass(time.Hour)
		expect(55, 65, 1)
		refusal.Store(apierrors.NewInvalid(schema.GroupKind{Kind: "DeviceTaintRule"}, "rule", nil))
		b.pass(time.Hour)
		expect(55, 65, 2)
		b.updateRule("rule", func(*resourceapi.DeviceTaintRule) {})
		b.pass(6 * time.Second)
		expect(1, 1, 2)
		refusal.Store(nil)
		b.pass(time.Minute)
		expect(1, 1, 2)
		b.expectCondition("rule", "False Completed 2 1 pod evicted.")
	})
}

// TestReplacedRule: a rule takes the place of another one with the same taint, so that no device
// changes. Its pods are those of the new rule, also where there are too many of them.
func TestReplacedRule(t *testing.T) {
	objects := []runtime.Object{sliceOf(1), ruleOn("before", "gpu-0", seconds(0))}
	for i := range 30 {
		objects = append(objects, both(podOn("ns", fmt.Sprint("pod-", i), "gpu-0", tolerate(noExecute, ptr.To[int64](3600))))...)
	}
	o := full
	o.Thresholds = &guard.Thresholds{Pods: 20, Namespaces: 5, Percent: 100}
	inBatches(t, 20*time.Millisecond, o, objects, func(b *bubble) {
		b.pass(time.Minute)
		rules := b.ResourceV1().DeviceTaintRules()
		b.do(nil, rules.Delete(b.Context(), "before", metav1.DeleteOptions{}))
		b.do(rules.Create(b.Context(), ruleOn("after", "gpu-0", seconds(0)), metav1.CreateOptions{}))
		b.pass(time.Minute)
		b.expectCondition("after", "True PodsPendingEviction 1 30 pods need to be evicted in 1 namespace.")
		b.pass(2 * time.Hour)
		if held := b.condition("after", heldCondition); held == nil || held.Reason != reasonTooLarge || len(b.deleted) > 0 {
			t.Errorf("deleted %d, held by %v", len(b.deleted), held)
		}
	})
}

// TestEvictedByKubernetes: in the mode supplement, the number of evicted pods of the in-tree
// controller is not taken for that of this one.
func TestEvictedByKubernetes(t *testing.T) {
	theirs := metav1.Condition{Type: resourceapi.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse, Reason: reasonCompleted, Message: "10 pods evicted.", ObservedGeneration: 1}
	ours := metav1.Condition{Type: ownCondition, Status: metav1.ConditionFalse, Reason: reasonNotStarted, ObservedGeneration: 1}
	for name, conditions := range map[string][]metav1.Condition{"after a restart": {theirs, ours}, "installed": {theirs}} {
		t.Run(name, func(t *testing.T) {
			rule := ruleOn("rule", "gpu-0", seconds(0))
			rule.Status.Conditions = conditions
			inBubble(t, Options{Mode: ModeSupplement}, []runtime.Object{sliceOf(1), rule}, func(b *bubble) {
				b.pass(time.Minute)
				if c := b.condition("rule", ownCondition); c == nil || c.Reason != reasonNotStarted || c.Message != "" {
					t.Errorf("own condition %v", c)
				}
			})
		})
	}
}

// TestAffected: pods that tolerate a rule without end are not decided about again for its condition, however
// many they are.
func TestAffected(t *testing.T) {
	index := &usage.Index{}
	for name, tolerations := range map[string][]resourceapi.DeviceToleration{"tolerates": {tolerate(noExecute, nil)}, "for a minute": {tolerate(noExecute, ptr.To[int64](60))}, "does not": nil} {
		pod, claim := podOn("ns", name, "gpu-0", tolerations...)
		index.SetClaim(claim)
		index.SetPod(pod)
	}
	s := &statuses{c: &Controller{options: Options{Usage: index}}}
	for effect, want := range map[resourceapi.DeviceTaintEffect]int{noExecute: 2, resourceapi.DeviceTaintEffectNone: 3} {
		rule := ruleOn("rule", "", seconds(0))
		rule.Spec.Taint.Effect = effect
		if got := s.affected(rule); len(got) != want {
			t.Errorf("%s: %v, want %d", effect, got, want)
		}
	}
}
