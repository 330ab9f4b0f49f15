package evictor

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestUnanswered: a deletion that is answered with 504 counts if the pod goes, and once,
// whether it was carried out by then or by the next attempt.
func TestUnanswered(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	timeout := apierrors.NewTimeoutError("the request did not complete within 34s", 1)
	gone := func(b *bubble) error { return b.Tracker().Delete(pods, "ns", "pod") }
	ends := func(b *bubble) error {
		pod, _ := podOn("ns", "pod", "gpu-0")
		pod.DeletionTimestamp = ptr.To(metav1.Now())
		return b.Tracker().Update(pods, pod, "ns")
	}
	for name, test := range map[string]struct {
		does     func(b *bubble) error // at the first attempt
		err      error
		later    func(b *bubble) error // before the second attempt
		answered bool                  // by the first attempt
		attempts int
		counted  int
	}{
		"gone":                         {does: gone, err: timeout, attempts: 1, counted: 1},
		"ends":                         {does: ends, err: timeout, attempts: 1, counted: 1},
		"ends after the answer":        {later: ends, err: timeout, attempts: 1, counted: 1},
		"gone after the answer":        {later: gone, err: timeout, attempts: 1, counted: 1},
		"not carried out":              {err: timeout, attempts: 2, counted: 1},
		"broken connection":            {later: ends, err: syscall.ECONNRESET, attempts: 1, counted: 1},
		"refused, and ended by others": {later: ends, err: syscall.ECONNREFUSED, answered: true, attempts: 1},
		"denied, and ended by others":  {later: ends, err: apierrors.NewForbidden(pods.GroupResource(), "pod", nil), answered: true, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod, claim := podOn("ns", "pod", "gpu-0")
			options, logged := full, 0
			var mutex sync.Mutex
			options.Logger = funcr.New(func(_, line string) {
				mutex.Lock()
				defer mutex.Unlock()
				if strings.Contains(line, `"Evicted pod"`) {
					logged++
				}
			}, funcr.Options{})
			inBubble(t, options, []runtime.Object{sliceOf(1), pod, claim}, func(b *bubble) {
				attempts := 0
				b.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					if attempts++; attempts > 1 {
						return false, nil, nil
					}
					if test.does != nil {
						if err := test.does(b); err != nil {
							t.Error(err)
						}
					}
					return true, nil, test.err
				})
				if test.later != nil {
					go func() {
						after := 3 * time.Second // the second attempt comes after 5 s
						if test.answered {
							after = 3 * time.Millisecond // 5 ms
						}
						timer := time.NewTimer(after)
						<-timer.C
						if err := test.later(b); err != nil {
							t.Error(err)
						}
					}()
				}
				b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
				b.pass(10 * time.Second)
				_ = gone(b) // it may be already
				b.pass(time.Minute)
				if attempts != test.attempts {
					t.Errorf("%d attempts, want %d", attempts, test.attempts)
				}
				if got := b.controller.tally("rule"); got != (tally{Evicted: test.counted}) {
					t.Errorf("counted %+v, want %d", got, test.counted)
				}
				if logged != test.counted || b.deletions() != test.counted {
					t.Errorf("%d logged, %d in the metric, want %d", logged, b.deletions(), test.counted)
				}
				if c := b.condition("rule", "EvictionInProgress"); test.counted > 0 && (c == nil || c.Message != fmt.Sprint(test.counted, " pod evicted.")) {
					t.Errorf("condition %+v", c)
				}
			})
		})
	}
}

// TestUnansweredAndWithdrawn: a deletion that is answered with 504 after 30 s counts if the pod goes, also if its plan is
// withdrawn before it is seen to go. A pod that does not go within minutes is not remembered, and who deletes it later counts.
func TestUnansweredAndWithdrawn(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	gone := func(b *bubble) { b.do(nil, b.Tracker().Delete(pods, slowNamespace, "pod")) }
	ends := func(b *bubble) {
		pod, _ := podOn(slowNamespace, "pod", "gpu-0")
		pod.DeletionTimestamp = ptr.To(metav1.Now())
		b.do(nil, b.Tracker().Update(pods, pod, slowNamespace))
	}
	tolerated := func(b *bubble) {
		_, claim := podOn(slowNamespace, "pod", "gpu-0", tolerate(noExecute, nil))
		b.updateClaim(claim)
	}
	deleted := func(b *bubble) {
		b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule", metav1.DeleteOptions{}))
	}
	for name, test := range map[string]struct {
		withdraw  func(b *bubble)
		withdrawn time.Duration // since the start; 30 s is when the answer comes
		goes      func(b *bubble)
		after     time.Duration // since the answer
		counted   int
	}{
		"rule deleted before the answer, gone": {deleted, 10 * time.Second, gone, 3 * time.Second, 1},
		"rule deleted before the answer, ends": {deleted, 10 * time.Second, ends, 3 * time.Second, 1},
		"rule deleted after it, gone":          {deleted, 31 * time.Second, gone, 30 * time.Second, 1},
		"rule deleted after it, ends":          {deleted, 31 * time.Second, ends, 30 * time.Second, 1},
		"tolerated before the answer, ends":    {tolerated, 10 * time.Second, ends, 30 * time.Second, 1},
		"tolerated after it, gone":             {tolerated, 31 * time.Second, gone, 30 * time.Second, 1},
		"ended by others before it":            {deleted, 10 * time.Second, ends, 5 * time.Minute, 0},
		"ended by others after it":             {deleted, 31 * time.Second, gone, 5 * time.Minute, 0},
		"tolerated, and ended by others":       {tolerated, 31 * time.Second, gone, 5 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			options := full
			options.Client = slowPods{verb: "delete", after: 30 * time.Second}
			var mutex sync.Mutex
			var logged []string
			options.Logger = funcr.New(func(_, line string) {
				mutex.Lock()
				defer mutex.Unlock()
				if strings.Contains(line, `"Evicted pod"`) {
					logged = append(logged, line)
				}
			}, funcr.Options{})
			inBubble(t, options, append(both(podOn(slowNamespace, "pod", "gpu-0")), sliceOf(1)), func(b *bubble) {
				b.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewTimeoutError("the request did not complete within 34s", 1)
				})
				b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
				b.pass(test.withdrawn)
				test.withdraw(b)
				b.pass(30*time.Second + test.after - test.withdrawn)
				if known := b.controller.states.of(nameOf(slowNamespace, "pod")); (known != nil) != (test.counted > 0) {
					t.Errorf("%s after the answer, the pod is known as %+v", test.after, known)
				}
				test.goes(b)
				b.pass(time.Minute)
				if len(logged) != test.counted || b.deletions() != test.counted {
					t.Errorf("%d in the metric, logged %q, want %d", b.deletions(), logged, test.counted)
				}
				for _, line := range logged {
					if !strings.Contains(line, "DeviceTaintRule rule") {
						t.Errorf("the log does not name the rule: %s", line)
					}
				}
				if test.counted > 0 && strings.HasPrefix(name, "tolerated") { // else the rule is gone
					if c := b.condition("rule", "EvictionInProgress"); c == nil || c.Message != "1 pod evicted." {
						t.Errorf("condition %+v", c)
					}
				}
				if known := b.controller.states.replaced; len(known) > 0 {
					t.Errorf("plans are left: %v", known)
				}
			})
		})
	}
}

// deletions is the number of evicted pods in the metric.
func (b *bubble) deletions() int {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "dra_steward_evictor_pod_deletions_total" {
			return int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	b.Fatal("there is no metric of deletions")
	return 0
}

// TestTolerationForEver: a toleration of 292 billion years leaves no pod pending.
func TestTolerationForEver(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](math.MaxInt64)))
	inBubble(t, full, []runtime.Object{sliceOf(1), pod, claim}, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Minute)
		if c := b.condition("rule", "EvictionInProgress"); c == nil || c.Reason != reasonNotStarted {
			t.Errorf("condition %+v", c)
		}
		b.expect(nil)
	})
}
