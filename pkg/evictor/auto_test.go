package evictor

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// silence answers as set, after as long as the real probe takes.
type silence struct {
	answers *atomic.Bool
	err     error
}

func answering() *atomic.Bool {
	answers := new(atomic.Bool)
	answers.Store(true)
	return answers
}

func (s silence) Probe(ctx context.Context) (bool, error) {
	if s.err != nil || s.answers.Load() {
		return s.err == nil, s.err
	}
	after := time.NewTimer(20 * time.Second)
	defer after.Stop()
	select {
	case <-after.C:
	case <-ctx.Done():
	}
	return false, ctx.Err()
}

func auto(answers *atomic.Bool) Options {
	return Options{Mode: ModeAuto, InTreeDetector: silence{answers: answers}}
}

// onAll has an ordinary pod and one on extended resources on each of two devices.
func onAll() []runtime.Object {
	objects := append(both(podOn("ns", "slice", "gpu-0")), both(extended(podOn("ns", "slice-extended", "gpu-0")))...)
	objects = append(objects, both(podOn("ns", "rule", "gpu-1"))...)
	return append(objects, both(extended(podOn("ns", "rule-extended", "gpu-1")))...)
}

// TestAutoAlone: no controller answers. For two minutes no pod is evicted, then all are.
func TestAutoAlone(t *testing.T) {
	objects := append(onAll(), sliceOf(1, taint("broken", seconds(0))), ruleOn("rule", "gpu-1", seconds(0)))
	inBubble(t, auto(new(atomic.Bool)), objects, func(b *bubble) {
		b.pass(2 * time.Minute)
		b.expect(nil)
		b.expectCondition("rule", "none")
		b.pass(3 * time.Minute)
		if len(b.deleted) != 4 {
			t.Errorf("deleted %v", b.deleted)
		}
		for name, at := range b.deleted {
			if at < 2*time.Minute {
				t.Errorf("%s was deleted after %s", name, at)
			}
		}
		b.pass(time.Minute)
		b.expectCondition("rule", "False Completed 1 2 pods evicted.")
	})
}

// TestAutoBeside: the in-tree controller answers. Only the pods that it misses are evicted,
// after its time.
func TestAutoBeside(t *testing.T) {
	objects := append(onAll(), sliceOf(1, taint("broken", seconds(0))), ruleOn("rule", "gpu-1", seconds(0)))
	inBubble(t, auto(answering()), objects, func(b *bubble) {
		b.pass(time.Hour)
		b.expect(deletions{"ns/slice-extended": 15 * time.Second, "ns/rule-extended": 15 * time.Second})
		b.expectCondition("rule", "none")
	})
}

// TestAutoWhileDeciding: the first sign of the other controller comes while pods are
// decided about for the first time; none is forgotten.
func TestAutoWhileDeciding(t *testing.T) {
	for range 5 {
		objects := []runtime.Object{sliceOf(1, taint("broken", seconds(0)))}
		const n = 100
		for i := range n {
			objects = append(objects, both(extended(podOn("ns", fmt.Sprint("pod-", i), "gpu-0")))...)
		}
		inBubble(t, auto(answering()), objects, func(b *bubble) {
			b.pass(time.Minute)
			if len(b.deleted) != n {
				t.Errorf("%d of %d deleted", len(b.deleted), n)
			}
		})
	}
}

// TestAutoSlicesOnly is Kubernetes 1.36: the other controller evicts for slices, as can
// be seen from what it does to a pod, and does not answer for rules.
func TestAutoSlicesOnly(t *testing.T) {
	inBubble(t, auto(new(atomic.Bool)), append(onAll(), sliceOf(1), ruleOn("rule", "gpu-1", seconds(0))), func(b *bubble) {
		b.updateSlice(sliceOf(1, taint("broken", seconds(0))))
		b.pass(5 * time.Second)
		pod, err := b.CoreV1().Pods("ns").Get(b.Context(), "slice", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		markByKubernetes(pod)
		b.updatePod(pod)
		b.pass(20 * time.Minute)
		// Since it was seen after five seconds.
		b.expect(deletions{"ns/slice-extended": 20 * time.Second, "ns/rule": 3 * time.Minute, "ns/rule-extended": 3 * time.Minute})
		b.expectCondition("rule", "False Completed 1 2 pods evicted.")
	})
}

// TestAutoExtended: the in-tree controller evicts pods with extended resources, too, as with
// kubernetes#142289. From its first such eviction on they are left to it; if it stops, which an
// older version does, they are evicted again.
func TestAutoExtended(t *testing.T) {
	objects := append(both(extended(podOn("ns", "first", "gpu-0"))), both(extended(podOn("ns", "second", "gpu-1")))...)
	objects = append(objects, both(extended(podOn("ns", "missed", "gpu-2")))...)
	inBubble(t, auto(answering()), append(objects, sliceOf(1)), func(b *bubble) {
		byKubernetes := func(name string) {
			b.pass(2 * time.Second)
			pod, err := b.CoreV1().Pods("ns").Get(b.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			markByKubernetes(pod)
			b.updatePod(pod)
			b.pass(20 * time.Minute)
			if _, deleted := b.deleted["ns/"+name]; deleted {
				t.Errorf("%s was deleted", name)
			}
		}
		b.createRule(ruleOn("first", "gpu-0", seconds(0)))
		byKubernetes("first")
		b.createRule(ruleOn("second", "gpu-1", seconds(0)))
		// It takes longer than the time that it had before.
		b.pass(30 * time.Second)
		byKubernetes("second")
		b.createRule(ruleOn("missed", "gpu-2", seconds(0)))
		b.pass(time.Minute)
		b.expect(nil)
		b.pass(4 * time.Minute)
		if _, deleted := b.deleted["ns/missed"]; !deleted || len(b.deleted) != 1 {
			t.Errorf("deleted %v", b.deleted)
		}
	})
}

// TestAutoExtendedCondition: once the in-tree controller evicts pods with extended resources, too,
// rules keep no condition of this controller.
func TestAutoExtendedCondition(t *testing.T) {
	objects := append(both(extended(podOn("ns", "first", "gpu-0"))), both(extended(podOn("ns", "second", "gpu-1", tolerate(noExecute, ptr.To[int64](600)))))...)
	inBubble(t, auto(answering()), append(objects, sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("second", "gpu-1", seconds(0)))
		b.pass(time.Minute)
		if c := b.condition("second", ownCondition); c == nil || c.Reason != reasonPending {
			t.Fatalf("before: %v", c)
		}
		b.createRule(ruleOn("first", "gpu-0", seconds(60)))
		b.pass(2 * time.Second)
		pod, err := b.CoreV1().Pods("ns").Get(b.Context(), "first", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		markByKubernetes(pod)
		b.updatePod(pod)
		b.pass(5 * time.Minute)
		for _, rule := range []string{"first", "second"} {
			if c := b.condition(rule, ownCondition); c != nil {
				t.Errorf("%s keeps %v", rule, c)
			}
		}
	})
}

func markByKubernetes(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager", LastTransitionTime: metav1.Now(),
	})
}

// TestAutoReturns: the other controller comes back, by an upgrade or a failover. From
// its first sign on it has its part.
func TestAutoReturns(t *testing.T) {
	answers := new(atomic.Bool)
	objects := append(both(podOn("ns", "first", "gpu-0")), both(podOn("ns", "later", "gpu-1"))...)
	objects = append(objects, both(extended(podOn("ns", "missed", "gpu-1")))...)
	inBubble(t, auto(answers), append(objects, sliceOf(1), ruleOn("first", "gpu-0", seconds(0))), func(b *bubble) {
		b.pass(5 * time.Minute)
		if _, deleted := b.deleted["ns/first"]; !deleted {
			t.Fatalf("deleted %v", b.deleted)
		}
		answers.Store(true)
		b.pass(2 * time.Minute)
		b.createRule(ruleOn("later", "gpu-1", seconds(0)))
		b.pass(20 * time.Minute)
		if _, deleted := b.deleted["ns/later"]; deleted || len(b.deleted) != 2 {
			t.Errorf("deleted %v", b.deleted)
		}
		// What was ours in the status is given up.
		if c := b.condition("later", "EvictionInProgress"); c != nil {
			t.Errorf("condition %+v", c)
		}
		answers.Store(false)
		b.pass(5 * time.Minute)
		if _, deleted := b.deleted["ns/later"]; !deleted {
			t.Errorf("deleted %v", b.deleted)
		}
	})
}

// TestAutoStatusIsASign: the other controller writes into the status of a rule, before
// any probe.
func TestAutoStatusIsASign(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0")
	inBubble(t, auto(new(atomic.Bool)), []runtime.Object{pod, claim, sliceOf(1), ruleOn("rule", "gpu-0", seconds(0))}, func(b *bubble) {
		b.pass(100 * time.Second)
		r, err := b.ResourceV1().DeviceTaintRules().Get(b.Context(), "rule", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress", Status: metav1.ConditionTrue, Reason: "PodsPendingEviction", LastTransitionTime: metav1.Now()}}
		b.do(b.ResourceV1().DeviceTaintRules().UpdateStatus(b.Context(), r, metav1.UpdateOptions{}))
		b.pass(100 * time.Second)
		b.expect(nil)
	})
}

// TestAutoOwnStatusComesLate: a watch that was interrupted delivers the conditions that this controller
// wrote one after the other. None of them is a sign of the other controller.
func TestAutoOwnStatusComesLate(t *testing.T) {
	objects := []runtime.Object{sliceOf(1), ruleOn("rule", "gpu-0", seconds(0))}
	for i := range 10 { // each ends later than the one before, so that each write is another
		objects = append(objects, both(podOn("ns", fmt.Sprint("pod-", i), "gpu-0", tolerate(noExecute, ptr.To(int64(300+20*i)))))...)
	}
	inBubble(t, auto(new(atomic.Bool)), objects, func(b *bubble) {
		rules := []*resourceapi.DeviceTaintRule{ruleOn("rule", "gpu-0", seconds(0))}
		for range 700 {
			b.pass(time.Second)
			rule, err := b.ResourceV1().DeviceTaintRules().Get(b.Context(), "rule", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if last := rules[len(rules)-1]; !sameCondition(findCondition(last, "EvictionInProgress"), findCondition(rule, "EvictionInProgress")) {
				rules = append(rules, rule)
			}
		}
		if len(rules) < 10 || len(b.deleted) != 10 {
			t.Fatalf("%d writes, deleted %v", len(rules), b.deleted)
		}
		for i, rule := range rules[1:] {
			b.controller.ruleChanged(rules[i], rule)
		}
		b.comes("ns", "next")
		b.pass(time.Second)
		if _, deleted := b.deleted["ns/next"]; !deleted {
			t.Errorf("deleted %v", b.deleted)
		}
	})
}

// TestWrittenConditionsAreBounded: the last ones are remembered, each once.
func TestWrittenConditionsAreBounded(t *testing.T) {
	var r ruleState
	for i := range 3 * mostWritten {
		c := metav1.Condition{Type: "EvictionInProgress", Message: fmt.Sprint(i / 2)}
		had := len(r.wrote)
		if r.remember(c); i%2 == 1 && len(r.wrote) != had {
			t.Fatalf("the same condition is remembered twice: %v", r.wrote)
		}
	}
	if last := r.wrote[len(r.wrote)-1].Message; len(r.wrote) != mostWritten || last != fmt.Sprint(3*mostWritten/2-1) {
		t.Errorf("%d are remembered, the last is %s", len(r.wrote), last)
	}
}

// TestAutoLearnsTwice: two goroutines learn of the in-tree controller at the same time, one of a pod and
// one of a rule. Neither is forgotten; the log is the moment when the first has not ended yet.
func TestAutoLearnsTwice(t *testing.T) {
	var learn func()
	options := auto(new(atomic.Bool))
	options.Logger = funcr.New(func(_, line string) {
		if again := learn; again != nil && strings.Contains(line, "Detected state") {
			learn = nil
			again()
		}
	}, funcr.Options{})
	inBubble(t, options, append(onAll(), sliceOf(1)), func(b *bubble) {
		learn = func() { b.controller.learn(func(o *inTreeState) { o.seen(fromRules) }) }
		b.controller.learn(func(o *inTreeState) { o.seen(fromSlices) })
		if known, used := b.controller.inTree.shares(), b.controller.scope.Load().shares; used != known {
			t.Errorf("the shares are %+v, want %+v", used, known)
		}
	})
}

// TestScopeChangesInOneStep: what is confirmed while the shares change is not lost.
func TestScopeChangesInOneStep(t *testing.T) {
	options := auto(new(atomic.Bool))
	options.ActSince = bubbleStart
	inBubble(t, options, nil, func(b *bubble) {
		var confirming sync.WaitGroup
		b.controller.rescope(func(o *scope) {
			started := make(chan struct{})
			confirming.Go(func() {
				close(started)
				b.controller.Confirm(Confirmation{})
			})
			<-started
			for range 1000 {
				goruntime.Gosched()
			}
			o.shares = ModeFull.shares()
		})
		confirming.Wait()
		if got := b.controller.scope.Load(); !got.since.IsZero() || got.shares != ModeFull.shares() {
			t.Errorf("the scope is %+v", got)
		}
	})
}

// TestAutoCannotAsk: an error is no answer, and not the lack of one. What pods show
// counts all the same.
func TestAutoCannotAsk(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](600)))
	options := Options{Mode: ModeAuto, InTreeDetector: silence{err: errors.New("forbidden")}}
	inBubble(t, options, []runtime.Object{pod, claim, sliceOf(1), ruleOn("rule", "gpu-0", seconds(0))}, func(b *bubble) {
		b.pass(12 * time.Minute)
		b.expect(nil)
		b.pass(3 * time.Minute)
		if len(b.deleted) != 1 {
			t.Errorf("deleted %v", b.deleted)
		}
	})
}

// TestRuleProber makes its rule in the version that is served, removes what was left
// behind, and knows an answer.
func TestRuleProber(t *testing.T) {
	for name, answers := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			client.PrependReactor("*", "devicetaintrules", func(action clienttesting.Action) (bool, runtime.Object, error) {
				switch {
				case action.GetResource().Version != "v1beta2":
					return true, nil, notFound()
				case action.GetVerb() == "get" && !answers:
					return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
				default:
					return true, probed(), nil
				}
			})
			got, err := RuleProbe{Client: client, Answer: 1500 * time.Millisecond}.Probe(t.Context())
			if err != nil || got != answers {
				t.Errorf("got %t, %v", got, err)
			}
			last := client.Actions()[len(client.Actions())-1]
			if last.GetVerb() != "delete" || last.GetResource().Version != "v1beta2" {
				t.Errorf("the last call is %s %s", last.GetVerb(), last.GetResource())
			}
		})
	}
}

func notFound() error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "devicetaintrules"}, taints.ProbeName)
}

// probed is the rule with the condition of the other controller.
func probed() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "EvictionInProgress", "status": "False", "reason": "NoEffect"},
	}}}}
}
