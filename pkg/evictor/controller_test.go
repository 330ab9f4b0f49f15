package evictor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

var full = Options{Mode: ModeFull}

func both(pod *corev1.Pod, claim *resourceapi.ResourceClaim) []runtime.Object {
	return []runtime.Object{pod, claim}
}

type deletions = map[string]time.Duration

// TestEviction: what is there at the start, and one step later; by the real code from
// the event to the call.
func TestEviction(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
	tainted := sliceOf(1, taint("broken", seconds(0)))
	for name, test := range map[string]struct {
		objects []runtime.Object
		step    func(*bubble) // after ten seconds
		want    deletions
	}{
		"slice taint":         {objects: []runtime.Object{tainted, pod, claim}, want: deletions{"ns/pod": time.Minute}},
		"rule":                {objects: []runtime.Object{sliceOf(1), ruleOn("rule", "gpu-0", seconds(0)), pod, claim}, want: deletions{"ns/pod": time.Minute}},
		"rule without slices": {objects: []runtime.Object{ruleOn("rule", "gpu-0", seconds(0)), pod, claim}, want: deletions{"ns/pod": time.Minute}},
		"rule of all devices": {objects: []runtime.Object{ruleOn("rule", "", seconds(0)), pod, claim}, want: deletions{"ns/pod": time.Minute}},
		"rule of another":     {objects: []runtime.Object{sliceOf(1), ruleOn("rule", "gpu-1", seconds(0)), pod, claim}},
		"no taint":            {objects: []runtime.Object{sliceOf(1), pod, claim}},
		"taint comes": {objects: []runtime.Object{sliceOf(1), pod, claim},
			step: func(b *bubble) { b.updateSlice(sliceOf(1, taint("broken", seconds(5)))) }, want: deletions{"ns/pod": 65 * time.Second}},
		"rule comes": {objects: []runtime.Object{sliceOf(1), pod, claim},
			step: func(b *bubble) { b.createRule(ruleOn("rule", "gpu-0", seconds(10))) }, want: deletions{"ns/pod": 70 * time.Second}},
		"rule comes without slices": {objects: []runtime.Object{pod, claim},
			step: func(b *bubble) { b.createRule(ruleOn("rule", "", seconds(10))) }, want: deletions{"ns/pod": 70 * time.Second}},
		"pod comes": {objects: []runtime.Object{tainted, claim},
			step: func(b *bubble) { b.do(b.CoreV1().Pods("ns").Create(b.Context(), pod, metav1.CreateOptions{})) }, want: deletions{"ns/pod": time.Minute}},
		"claim comes": {objects: []runtime.Object{tainted, pod},
			step: func(b *bubble) {
				b.do(b.ResourceV1().ResourceClaims("ns").Create(b.Context(), claim, metav1.CreateOptions{}))
			}, want: deletions{"ns/pod": time.Minute}},
		"pod is scheduled": {objects: []runtime.Object{tainted, claim, func() *corev1.Pod { p := pod.DeepCopy(); p.Spec.NodeName = ""; return p }()},
			step: func(b *bubble) { b.updatePod(pod) }, want: deletions{"ns/pod": time.Minute}},
		"older generation is tainted": {objects: []runtime.Object{tainted, sliceOf(2), pod, claim}},
		"newer generation goes": {objects: []runtime.Object{tainted, sliceOf(2), pod, claim},
			step: func(b *bubble) {
				b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), "slice-2", metav1.DeleteOptions{}))
			}, want: deletions{"ns/pod": time.Minute}},
		"taint goes": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) { b.updateSlice(sliceOf(1)) }},
		"taint is reduced": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) {
			less := taint("broken", seconds(0))
			less.Effect = resourceapi.DeviceTaintEffectNoSchedule
			b.updateSlice(sliceOf(1, less))
		}},
		"newer generation comes": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) {
			b.do(b.ResourceV1().ResourceSlices().Create(b.Context(), sliceOf(2), metav1.CreateOptions{}))
		}},
		"slice goes": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) {
			b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), "slice-1", metav1.DeleteOptions{}))
		}},
		"rule goes": {objects: []runtime.Object{sliceOf(1), ruleOn("rule", "gpu-0", seconds(0)), pod, claim}, step: func(b *bubble) {
			b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule", metav1.DeleteOptions{}))
		}},
		"rule goes without slices": {objects: []runtime.Object{ruleOn("rule", "", seconds(0)), pod, claim}, step: func(b *bubble) {
			b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule", metav1.DeleteOptions{}))
		}},
		"pod goes": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) { b.gone("ns", "pod") }},
		"claim goes": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) {
			b.do(nil, b.ResourceV1().ResourceClaims("ns").Delete(b.Context(), "pod", metav1.DeleteOptions{}))
		}},
		"taint becomes urgent": {objects: []runtime.Object{tainted, pod, claim}, step: func(b *bubble) {
			other := claim.DeepCopy()
			other.Status.Allocation.Devices.Results[0].Tolerations = nil
			b.updateClaim(other)
		}, want: deletions{"ns/pod": 10 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, full, test.objects, func(b *bubble) {
				b.pass(10 * time.Second)
				b.expect(nil)
				if test.step != nil {
					test.step(b)
				}
				b.pass(time.Hour)
				b.expect(test.want)
				if want := len(test.want); b.calls("patch", "pods/status") != want || b.calls("get", "pods") != 0 {
					t.Errorf("%d patches and %d reads of pods, want %d and none", b.calls("patch", "pods/status"), b.calls("get", "pods"), want)
				}
			})
		})
	}
}

// gone deletes a pod in the place of a user.
func (b *bubble) gone(namespace, name string) {
	b.Helper()
	b.do(nil, b.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), namespace, name))
}

// TestReallocationMergedIntoOneUpdate is bug 6 from the event on, in both directions.
func TestReallocationMergedIntoOneUpdate(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		want     deletions
	}{
		"to the tainted device":   {from: "gpu-1", to: "gpu-0", want: deletions{"ns/pod": 60 * time.Second}},
		"from the tainted device": {from: "gpu-0", to: "gpu-1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, claim := podOn("ns", "pod", test.from, tolerate(noExecute, ptr.To[int64](60)))
			inBubble(t, full, []runtime.Object{sliceOf(1, taint("broken", seconds(0))), pod, claim}, func(b *bubble) {
				b.pass(10 * time.Second)
				claim = claim.DeepCopy()
				claim.Status.Allocation.Devices.Results[0].Device = test.to
				b.updateClaim(claim)
				b.pass(time.Hour)
				b.expect(test.want)
			})
		})
	}
}

// TestBug4MissedDeletion: a slice whose deletion was seen only by listing again no longer
// evicts. The tracker receives a tombstone.
func TestBug4MissedDeletion(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
	objects := []runtime.Object{sliceOf(1, taint("broken", seconds(0))), pod, claim}
	inBubble(t, full, objects, func(b *bubble) {
		b.PrependWatchReactor("resourceslices", clienttesting.DefaultWatchReactor(nil, errors.New("no watch for a while")))
		b.do(nil, b.Tracker().Delete(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), "", "slice-1"))
		b.pass(time.Hour)
		b.expect(nil)
	})
}

// TestBug5SlowStatus: while a write of a rule's status hangs, pods are evicted.
func TestBug5SlowStatus(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0")
	options := full
	options.Client = slowStatus{}
	inBubble(t, options, []runtime.Object{sliceOf(1), pod, claim}, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Minute)
		b.expect(deletions{"ns/pod": 0})
	})
}

// slowStatus answers writes of the status of rules after the caller has given up.
type slowStatus struct {
	kubernetes.Interface
	resourceclient.ResourceV1Interface
	resourceclient.DeviceTaintRuleInterface
}

func (s slowStatus) ResourceV1() resourceclient.ResourceV1Interface { return s }

func (s slowStatus) DeviceTaintRules() resourceclient.DeviceTaintRuleInterface { return s }

func (s slowStatus) RESTClient() rest.Interface { return nil }

func (s slowStatus) ApplyStatus(ctx context.Context, _ *ac.DeviceTaintRuleApplyConfiguration, _ metav1.ApplyOptions) (*resourceapi.DeviceTaintRule, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSlowDeletions: while the deletions of some pods hang, others are decided about and
// evicted, a rule gets its status, and queries are answered.
func TestSlowDeletions(t *testing.T) {
	options := full
	options.Client = slowPods{verb: "delete"}
	objects := []runtime.Object{sliceOf(1)}
	for i := range 7 { // one worker is left
		objects = append(objects, both(podOn(slowNamespace, fmt.Sprint("pod-", i), "gpu-0"))...)
	}
	inBubble(t, options, objects, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Second)
		pod, claim := podOn("ns", "late", "gpu-0")
		b.do(b.ResourceV1().ResourceClaims("ns").Create(b.Context(), claim, metav1.CreateOptions{}))
		b.do(b.CoreV1().Pods("ns").Create(b.Context(), pod, metav1.CreateOptions{}))
		b.pass(time.Minute)
		b.expect(deletions{"ns/late": time.Second})
		if got, want := b.controller.tally("rule"), (tally{Pending: 7, Namespaces: 1, Evicted: 1}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		rule, err := b.ResourceV1().DeviceTaintRules().Get(b.Context(), "rule", metav1.GetOptions{})
		b.do(rule, err)
		if len(rule.Status.Conditions) == 0 || !strings.HasPrefix(rule.Status.Conditions[0].Message, "7 pods need to be evicted") {
			t.Errorf("conditions %+v", rule.Status.Conditions)
		}
	})
}

const slowNamespace = "slow"

// slowPods answers calls with a verb for the pods of one namespace after a time; with none, after
// the caller has given up.
type slowPods struct {
	kubernetes.Interface
	verb  string
	after time.Duration
}

type slowCore struct {
	coreclient.CoreV1Interface
	slow slowPods
}

type slowPodClient struct {
	coreclient.PodInterface
	slow slowPods
}

func (s slowPods) CoreV1() coreclient.CoreV1Interface { return slowCore{s.Interface.CoreV1(), s} }

func (s slowCore) Pods(namespace string) coreclient.PodInterface {
	pods := s.CoreV1Interface.Pods(namespace)
	if namespace == slowNamespace {
		return slowPodClient{pods, s.slow}
	}
	return pods
}

func (s slowPods) wait(ctx context.Context, verb string) {
	switch {
	case s.verb != verb:
	case s.after == 0:
		<-ctx.Done()
	default:
		<-time.After(s.after)
	}
}

func (s slowPodClient) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if s.slow.wait(ctx, "delete"); ctx.Err() != nil {
		return ctx.Err()
	}
	return s.PodInterface.Delete(ctx, name, options)
}

func (s slowPodClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Pod, error) {
	s.slow.wait(ctx, "patch")
	return s.PodInterface.Patch(ctx, name, kind, data, options, subresources...)
}

// TestBug8FinalizersAndHeartbeats: a pod that stays for a while after its deletion is
// neither deleted nor counted again, however often its claim changes.
func TestBug8FinalizersAndHeartbeats(t *testing.T) {
	var objects []runtime.Object
	const pods = 200
	for i := range pods {
		objects = append(objects, both(podOn("ns", fmt.Sprint("pod-", i), "gpu-0"))...)
	}
	options := full
	options.Limits.PerSecond = 1000
	inBubble(t, options, objects, func(b *bubble) {
		b.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			deletion, _ := action.(clienttesting.DeleteActionImpl)
			pod, err := b.Tracker().Get(action.GetResource(), deletion.Namespace, deletion.Name)
			if p, ok := pod.(*corev1.Pod); ok && err == nil {
				p = p.DeepCopy()
				p.DeletionTimestamp = ptr.To(metav1.Now())
				err = b.Tracker().Update(action.GetResource(), p, p.Namespace)
			}
			return true, nil, err
		})
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Minute)
		for i := range pods {
			_, claim := podOn("ns", fmt.Sprint("pod-", i), "gpu-0")
			claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "node", Device: "gpu-0"}}
			b.updateClaim(claim)
		}
		b.pass(time.Minute)
		if got := b.calls("delete", "pods"); got != pods {
			t.Errorf("%d deletions of %d pods", got, pods)
		}
		if got := b.controller.tally("rule"); got != (tally{Evicted: pods}) {
			t.Errorf("counted %+v", got)
		}
	})
}

// TestBug12RecreatedRule: a rule of the same name in one update is another rule.
func TestBug12RecreatedRule(t *testing.T) {
	objects := append(both(podOn("ns", "a", "gpu-0")), both(podOn("ns", "b", "gpu-1"))...)
	inBubble(t, full, append(objects, sliceOf(1), ruleOn("rule", "gpu-0", seconds(0))), func(b *bubble) {
		again := ruleOn("rule", "gpu-1", seconds(0))
		again.UID = "rule-again"
		b.do(b.ResourceV1().DeviceTaintRules().Update(b.Context(), again, metav1.UpdateOptions{}))
		b.pass(time.Minute)
		b.expect(deletions{"ns/a": 0, "ns/b": 0})
		if old, is := b.controller.tally("rule"), b.controller.tally("rule-again"); old != (tally{}) || is.Evicted != 1 {
			t.Errorf("the old rule has %+v, the new one %+v", old, is)
		}
		if c := b.condition("rule", "EvictionInProgress"); c == nil || c.Message != "1 pod evicted." {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestReplacedPod is bug 13 from the event on: the same name and node, another UID.
func TestReplacedPod(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
	inBubble(t, full, []runtime.Object{sliceOf(1), ruleOn("rule", "gpu-0", seconds(0)), pod, claim}, func(b *bubble) {
		b.pass(10 * time.Second)
		other := pod.DeepCopy()
		other.UID = "other"
		b.updatePod(other)
		b.pass(time.Hour)
		b.expect(nil)
		if got := b.controller.tally("rule"); got != (tally{}) {
			t.Errorf("counted %+v", got)
		}
	})
}

func TestRetry(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0")
	failures := 3
	inBubble(t, full, []runtime.Object{sliceOf(1), pod, claim}, func(b *bubble) {
		b.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("not now")
		})
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Second)
		b.expect(deletions{"ns/pod": 35 * time.Millisecond}) // 5 + 10 + 20
	})
}

// TestPodGoneAtThePatch: nothing is deleted, counted or reported.
func TestPodGoneAtThePatch(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0")
	inBubble(t, full, []runtime.Object{sliceOf(1), pod, claim}, func(b *bubble) {
		b.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := b.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "pod")
			if err != nil {
				t.Error(err)
			}
			return false, nil, nil
		})
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Hour)
		b.expect(nil)
		if got := b.controller.tally("rule"); got != (tally{}) {
			t.Errorf("counted %+v", got)
		}
	})
}

// TestObserve: decided and counted, and not one write.
func TestObserve(t *testing.T) {
	objects := append(both(podOn("ns", "pod", "gpu-0")), sliceOf(1, taint("broken", seconds(0))), ruleOn("rule", "gpu-0", seconds(0)))
	inBubble(t, Options{}, objects, func(b *bubble) {
		b.pass(24 * time.Hour)
		for _, action := range b.Actions() {
			if verb := action.GetVerb(); verb != "list" && verb != "watch" {
				t.Errorf("%s %s", verb, action.GetResource().Resource)
			}
		}
		verdict, plan := b.controller.verdict(nameOf("ns", "pod"))
		if len(verdict.Reasons) != 2 || plan.Evict() {
			t.Errorf("verdict: %s\nplan: %s", verdict.Explain(start), plan.Explain(start))
		}
		if n := testutil.CollectAndCount(b.registry, "dra_steward_evictor_evictions_total"); n != 0 {
			t.Errorf("%d series of evictions", n)
		}
	})
}

// TestSupplement: only the pods that the controller of Kubernetes misses, only after it
// has had its time, and not those that a user disrupts.
func TestSupplement(t *testing.T) {
	objects := []runtime.Object{sliceOf(1, taint("broken", seconds(0)))}
	objects = append(objects, both(podOn("ns", "plain", "gpu-0"))...)
	objects = append(objects, both(extended(podOn("ns", "missed", "gpu-0")))...)
	objects = append(objects, both(extended(podOn("ns", "later", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))))...)
	for _, name := range []string{"disrupted", "deleted"} {
		objects = append(objects, both(extended(podOn("ns", name, "gpu-0")))...)
	}
	inBubble(t, Options{Mode: ModeSupplement}, objects, func(b *bubble) {
		b.pass(14 * time.Second)
		pod, _ := extended(podOn("ns", "disrupted", "gpu-0"))
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager"}}
		b.updatePod(pod)
		pod, _ = extended(podOn("ns", "deleted", "gpu-0"))
		pod.DeletionTimestamp = ptr.To(metav1.Now())
		pod.Finalizers = []string{"example.com/wait"}
		b.updatePod(pod)
		b.expect(nil)
		b.pass(time.Hour)
		b.expect(deletions{"ns/missed": 15 * time.Second, "ns/later": 75 * time.Second})
	})
}

// TestActSince: what was there before is decided, not carried out.
func TestActSince(t *testing.T) {
	objects := append(both(podOn("ns", "old", "gpu-0")), both(podOn("ns", "new", "gpu-1"))...)
	objects = append(objects, sliceOf(1, taint("broken", seconds(-100))), ruleOn("old", "gpu-0", seconds(-100)))
	options := full
	options.ActSince = bubbleStart
	inBubble(t, options, objects, func(b *bubble) {
		b.createRule(ruleOn("new", "gpu-1", seconds(0)))
		b.pass(time.Hour)
		b.expect(deletions{"ns/new": 0})
		if verdict, plan := b.controller.verdict(nameOf("ns", "old")); len(verdict.Reasons) != 2 || plan.Evict() {
			t.Errorf("verdict: %s\nplan: %s", verdict.Explain(bubbleStart), plan.Explain(bubbleStart))
		}
	})
}

// TestLimits: never more than the buckets hold, and no namespace waits for another.
func TestLimits(t *testing.T) {
	var objects []runtime.Object
	for i := range 100 {
		objects = append(objects, both(podOn("many", fmt.Sprint("pod-", i), "gpu-0"))...)
	}
	for i := range 5 {
		objects = append(objects, both(podOn("few", fmt.Sprint("pod-", i), "gpu-0"))...)
	}
	options := full
	options.Limits = Limits{PerSecond: 10, PerNamespace: 2}
	inBubble(t, options, objects, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(2 * time.Minute)
		perSecond, few := map[int]int{}, time.Duration(0)
		for name, at := range b.deleted {
			perSecond[int(at/time.Second)]++
			if name[:3] == "few" {
				few = max(few, at)
			}
		}
		for second, n := range perSecond {
			if second > 0 && n > 10 {
				t.Errorf("%d deletions in second %d", n, second)
			}
		}
		if len(b.deleted) != 105 || few > 3*time.Second {
			t.Errorf("%d deleted; the last in the small namespace after %s", len(b.deleted), few)
		}
	})
}

// TestRestart: another controller goes on where the first has stopped. A pod that has
// the condition and was not deleted gets no second condition.
func TestRestart(t *testing.T) {
	pod, claim := podOn("ns", "half", "gpu-0")
	objects := append(both(podOn("ns", "pod", "gpu-0")), pod, claim, sliceOf(1))
	inBubble(t, full, objects, func(b *bubble) {
		dead := true
		b.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			d, _ := action.(clienttesting.DeleteAction)
			return dead && d.GetName() == "half", nil, errors.New("the API server is down")
		})
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(30 * time.Second)
		b.expect(deletions{"ns/pod": 0})
		b.stop()
		dead = false
		patches := b.calls("patch", "pods/status")
		b.start(full)
		synctest.Wait()
		b.expect(deletions{"ns/pod": 0, "ns/half": 30 * time.Second})
		if again := b.calls("patch", "pods/status") - patches; again != 0 {
			t.Errorf("%d more conditions", again)
		}
		b.pass(time.Minute)
		if c := b.condition("rule", "EvictionInProgress"); c == nil || c.Reason != reasonCompleted || c.Message != "2 pods evicted." {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestRunAtTheEnd: informers refuse handlers once they have ended. That is an error while the
// program goes on, and none when it ends before the controller has started.
func TestRunAtTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	rules := factory.Resource().V1().DeviceTaintRules().Informer()
	rules.RunWithContext(ended)
	for _, tt := range []struct {
		ctx  context.Context
		fail bool
	}{{ended, false}, {t.Context(), true}} {
		options := full
		options.Client, options.Rules, options.Tracker, options.Usage = fake.NewClientset(), rules, tracker.New(tracker.Options{}), &usage.Index{}
		controller, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		err = controller.Run(tt.ctx)
		if failed := err != nil; failed != tt.fail {
			t.Errorf("program ended: %v: got %v", !tt.fail, err)
		}
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	inBubble(t, full, append(both(podOn("ns", "pod", "gpu-0")), sliceOf(1, taint("broken", seconds(0)))), func(b *bubble) {
		b.pass(time.Second)
		problems, err := testutil.GatherAndLint(b.registry)
		if err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
		got, err := testutil.GatherAndCount(b.registry, "dra_steward_evictor_pod_deletions_total", "dra_steward_evictor_pod_deletion_duration_seconds")
		if err != nil || got != 2 {
			t.Error(got, err)
		}
	})
}

// decisions is how often pods were decided about.
func (b *bubble) decisions() uint64 {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "dra_steward_evictor_decision_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

// TestBug9And17OnlyWhoIsConcerned: a rule or a taint for one device leads to decisions
// only about the pods on it that do not tolerate it without an end, a write of a rule's status
// to none.
func TestBug9And17OnlyWhoIsConcerned(t *testing.T) {
	objects := []runtime.Object{sliceOf(1)}
	for i := range 50 {
		objects = append(objects, both(podOn("ns", fmt.Sprint("pod-", i), "gpu-1"))...)
	}
	objects = append(objects, both(podOn("ns", "one", "gpu-0", tolerate(noExecute, new(int64(3600)))))...)
	objects = append(objects, both(podOn("ns", "tolerant", "gpu-0", tolerate(noExecute, nil)))...)
	inBubble(t, full, objects, func(b *bubble) {
		before := b.decisions()
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.updateSlice(sliceOf(1, taint("hot", seconds(0))))
		b.updateRule("rule", func(r *resourceapi.DeviceTaintRule) {
			r.Status.Conditions = []metav1.Condition{{Type: "Other", Status: metav1.ConditionTrue, Reason: "Test"}}
		})
		b.pass(time.Minute)
		if got := b.decisions() - before; got == 0 || got > 4 {
			t.Errorf("%d decisions about one pod on the device, one that tolerates all, and 50 elsewhere", got)
		}
		b.expect(nil)
	})
}

// TestBug16GenerationRollover: while a driver publishes a new generation slice by slice,
// a device that is not in it yet keeps the taints that it has.
func TestBug16GenerationRollover(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
	inBubble(t, full, []runtime.Object{sliceOf(1, taint("broken", seconds(0))), pod, claim}, func(b *bubble) {
		b.pass(10 * time.Second)
		half := sliceOf(2)
		half.Spec.Pool.ResourceSliceCount = 2
		half.Spec.Devices = half.Spec.Devices[1:]
		b.do(b.ResourceV1().ResourceSlices().Create(b.Context(), half, metav1.CreateOptions{}))
		b.pass(time.Hour)
		b.expect(deletions{"ns/pod": time.Minute})
	})
}
