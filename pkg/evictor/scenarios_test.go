package evictor

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A scenario is a row of TestController in the source of Kubernetes 1.37
// (pkg/controller/devicetainteviction), with our objects; its name is that of the row. It
// runs twice: with all objects there at the start, and with each coming after the other,
// the last first.
type scenario struct {
	objects []runtime.Object
	// steps happen after ten seconds.
	steps func(*bubble)
	// want are the pods that are deleted within the hour, and when.
	want deletions
	// status is what the condition of the rule is in the end, empty for no rule.
	status string
}

// objectsOf is one slice of objects from several.
func objectsOf(all ...any) (objects []runtime.Object) {
	for _, one := range all {
		switch one := one.(type) {
		case runtime.Object:
			objects = append(objects, one)
		case []runtime.Object:
			objects = append(objects, one...)
		}
	}
	return objects
}

// with changes the pod and the claim of both.
func with(objects []runtime.Object, change func(*corev1.Pod, *resourceapi.ResourceClaim)) []runtime.Object {
	pod, _ := objects[0].(*corev1.Pod)
	claim, _ := objects[1].(*resourceapi.ResourceClaim)
	change(pod, claim)
	return objects
}

func onGPU(tolerations ...resourceapi.DeviceToleration) []runtime.Object {
	return both(podOn("ns", "pod", "gpu-0", tolerations...))
}

func forSeconds(n int64) resourceapi.DeviceToleration { return tolerate(noExecute, ptr.To(n)) }

func tainted() *resourceapi.ResourceSlice { return sliceOf(1, taint("broken", seconds(0))) }

func ruleWith(effect resourceapi.DeviceTaintEffect, device string) *resourceapi.DeviceTaintRule {
	rule := ruleOn("rule", device, seconds(0))
	rule.Spec.Taint.Effect = effect
	return rule
}

func inPodGroup(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"}}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
}

func fromTemplate(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	pod.Spec.ResourceClaims[0].ResourceClaimName, pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil, ptr.To("template")
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: pod.Spec.ResourceClaims[0].Name, ResourceClaimName: ptr.To(claim.Name)}}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
}

// secondClaim lets the pod of onGPU have gpu-1, too.
func secondClaim(objects []runtime.Object) []runtime.Object {
	_, claim := podOn("ns", "second", "gpu-1")
	return append(with(objects, func(pod *corev1.Pod, first *resourceapi.ResourceClaim) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "second", ResourceClaimName: ptr.To("second")})
		claim.Status.ReservedFor = first.Status.ReservedFor
	}), claim)
}

func manyPods(namespaces int) (objects []runtime.Object) {
	for i := range 10 {
		objects = append(objects, both(podOn(fmt.Sprint("ns-", i%namespaces), fmt.Sprint("pod-", i), "gpu-0"))...)
	}
	return objects
}

func allAt(at time.Duration, namespaces int) deletions {
	all := deletions{}
	for i := range 10 {
		all[fmt.Sprintf("ns-%d/pod-%d", i%namespaces, i)] = at
	}
	return all
}

var (
	now   = deletions{"ns/pod": 0}
	after = func(n int) deletions { return deletions{"ns/pod": time.Duration(n) * time.Second} }
)

const (
	completed  = "False Completed 1 1 pod evicted."
	notStarted = "False NotStarted 1 "
	previewed  = "False NoEffect 1 1 published device selected. 1 allocated device selected. %s would be evicted in %s if the effect was NoExecute."
)

// evictScenarios are the rows that delete pods.
func evictScenarios() map[string]scenario {
	return map[string]scenario{
		"evict-pod-resourceclaim": {objects: objectsOf(tainted(), onGPU()), want: now},
		"evict-pod-podgroup":      {objects: objectsOf(tainted(), with(onGPU(), inPodGroup)), want: now},
		"evict-pod-rule":          {objects: objectsOf(sliceOf(1), ruleWith(noExecute, "gpu-0"), onGPU()), want: now, status: completed},
		"evict-pod-rule-later":    {objects: objectsOf(sliceOf(1), ruleWith(noExecute, "gpu-0"), onGPU(forSeconds(30))), want: after(30), status: completed},
		"evict-many-pods-many-namespaces": {objects: objectsOf(sliceOf(1), ruleWith(noExecute, "gpu-0"), manyPods(10)), want: allAt(0, 10),
			status: "False Completed 1 10 pods evicted."},
		"evict-many-pods-same-namespace": {objects: objectsOf(sliceOf(1), ruleWith(noExecute, "gpu-0"), manyPods(1)), want: allAt(0, 1),
			status: "False Completed 1 10 pods evicted."},
		"multiple-claims-same-rule": {objects: objectsOf(sliceOf(1), ruleWith(noExecute, ""), secondClaim(onGPU())), want: now, status: completed},
		"multiple-claims-different-rules-order-1": {want: after(20), objects: objectsOf(sliceOf(1), ruleOn("rule", "gpu-0", seconds(40)), ruleOn("other", "gpu-1", seconds(20)), secondClaim(onGPU())),
			status: completed},
		"multiple-claims-different-rules-order-2": {want: after(20), objects: objectsOf(sliceOf(1), ruleOn("rule", "gpu-0", seconds(20)), ruleOn("other", "gpu-1", seconds(40)), secondClaim(onGPU())),
			status: completed},
		"evict-pod-resourceclaim-again": {objects: objectsOf(tainted(), onGPU(forSeconds(60))), want: after(60), steps: func(b *bubble) {
			b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), "slice-1", metav1.DeleteOptions{}))
			b.do(b.ResourceV1().ResourceSlices().Create(b.Context(), tainted(), metav1.CreateOptions{}))
		}},
		"evict-pod-after-scheduling": {want: after(10),
			objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, _ *resourceapi.ResourceClaim) { pod.Spec.NodeName = "" })),
			steps: func(b *bubble) {
				b.changePod(func(pod *corev1.Pod) { pod.Spec.NodeName = "node" })
			}},
		"evict-pod-after-unrelated-changes": {objects: objectsOf(tainted(), onGPU(forSeconds(60))), want: after(60), steps: func(b *bubble) {
			b.changePod(func(pod *corev1.Pod) { pod.Labels = map[string]string{"changed": "yes"} })
			claim, err := b.ResourceV1().ResourceClaims("ns").Get(b.Context(), "pod", metav1.GetOptions{})
			claim.Labels = map[string]string{"changed": "yes"}
			b.do(nil, err)
			b.updateClaim(claim)
		}},
		"evict-pod-resourceclaimtemplate": {objects: objectsOf(tainted(), with(onGPU(), fromTemplate)), want: now},
		"evict-pod-later":                 {objects: objectsOf(tainted(), onGPU(forSeconds(60))), want: after(60)},
		"evict-pod-later-many":            {objects: objectsOf(tainted(), onGPU(forSeconds(60), forSeconds(50), forSeconds(70))), want: after(50)},
		"evict-pod-toleration-mismatch": {objects: objectsOf(tainted(), onGPU(resourceapi.DeviceToleration{
			Key: "example.com/other", Operator: resourceapi.DeviceTolerationOpExists, Effect: noExecute})), want: now},
		"evict-pod-partial-toleration": {want: now, objects: objectsOf(sliceOf(1, taint("broken", seconds(0)), taint("hot", seconds(0))), onGPU(resourceapi.DeviceToleration{
			Key: "example.com/hot", Operator: resourceapi.DeviceTolerationOpExists, Effect: noExecute}))},
		"evict-pod-many-taints": {want: now,
			objects: objectsOf(sliceOf(1, taint("broken", seconds(0)), taint("hot", seconds(0))), ruleWith(noExecute, "gpu-0"), ruleOn("other", "gpu-0", seconds(0)), onGPU())},
		"evict-wrong-pod-replaced": {want: after(10),
			objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, _ *resourceapi.ResourceClaim) { pod.UID = "another" })),
			steps: func(b *bubble) {
				b.changePod(func(pod *corev1.Pod) { pod.UID = "ns-pod" })
			}},
		"evict-wrong-resourceclaim-replaced": {want: after(10),
			objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
				fromTemplate(pod, claim)
				claim.OwnerReferences[0].UID = "another"
			})),
			steps: func(b *bubble) {
				claim, err := b.ResourceV1().ResourceClaims("ns").Get(b.Context(), "pod", metav1.GetOptions{})
				b.do(nil, err)
				claim.UID, claim.OwnerReferences[0].UID = "replacement", "ns-pod"
				b.updateClaim(claim)
			}},
		"eviction-change-taint": {objects: objectsOf(sliceOf(1, taint("broken", seconds(60))), onGPU()), want: after(10), steps: func(b *bubble) {
			b.updateSlice(tainted())
		}},
	}
}

// quietScenarios are the rows that delete no pods.
func quietScenarios() map[string]scenario {
	none := resourceapi.DeviceTaintEffectNone
	untainted := func(b *bubble) { b.updateSlice(sliceOf(1)) }
	later := objectsOf(tainted(), onGPU(forSeconds(60)))
	return map[string]scenario{
		"empty":                               {},
		"populate-pools":                      {objects: objectsOf(sliceOf(1), sliceOf(2))},
		"update-pools":                        {objects: objectsOf(sliceOf(1)), steps: func(b *bubble) { b.updateSlice(tainted()) }},
		"untainted-claim":                     {objects: objectsOf(sliceOf(1), onGPU()[1])},
		"tainted-claim-through-resourceslice": {objects: objectsOf(tainted(), onGPU()[1])},
		"tainted-claim-through-rule":          {objects: objectsOf(sliceOf(1), ruleWith(noExecute, "gpu-0"), onGPU()[1]), status: notStarted},
		"rule-status":                         {objects: objectsOf(ruleWith(noExecute, "gpu-0")), status: notStarted},

		"none-pod-rule":                  {objects: objectsOf(sliceOf(1), ruleWith(none, "gpu-0"), onGPU()), status: fmt.Sprintf(previewed, "1 pod", "1 namespace")},
		"none-many-pods-many-namespaces": {objects: objectsOf(sliceOf(1), ruleWith(none, "gpu-0"), manyPods(10)), status: fmt.Sprintf(previewed, "10 pods", "10 different namespaces")},
		"none-many-pods-same-namespace":  {objects: objectsOf(sliceOf(1), ruleWith(none, "gpu-0"), manyPods(1)), status: fmt.Sprintf(previewed, "10 pods", "1 namespace")},
		"none-podgroup-rule":             {objects: objectsOf(sliceOf(1), ruleWith(none, "gpu-0"), with(onGPU(), inPodGroup)), status: fmt.Sprintf(previewed, "1 pod", "1 namespace")},

		"no-evict-pod-in-podgroup-without-claim": {objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
			inPodGroup(pod, claim)
			pod.Spec.ResourceClaims = nil
		}))},
		"no-evict-toleration-forever":      {objects: objectsOf(tainted(), onGPU(tolerate(noExecute, nil)))},
		"no-evict-toleration-forever-many": {objects: objectsOf(tainted(), onGPU(forSeconds(0), tolerate(noExecute, nil), forSeconds(60)))},
		"no-evict-not-scheduled":           {objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, _ *resourceapi.ResourceClaim) { pod.Spec.NodeName = "" }))},
		"no-evict-no-taint":                {objects: objectsOf(sliceOf(1), onGPU())},
		"no-evict-no-taint-update":         {objects: objectsOf(sliceOf(1), onGPU()), steps: untainted},
		"no-evict-template-no-status": {objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
			fromTemplate(pod, claim)
			pod.Status.ResourceClaimStatuses = nil
		}))},
		"no-evict-template-no-claim": {objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
			fromTemplate(pod, claim)
			pod.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
		}))},
		"no-evict-other-device": {objects: objectsOf(tainted(), both(podOn("ns", "pod", "gpu-1")))},
		"no-evict-wrong-pod":    {objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, _ *resourceapi.ResourceClaim) { pod.UID = "another" }))},
		"no-evict-wrong-resourceclaim": {objects: objectsOf(tainted(), with(onGPU(), func(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
			fromTemplate(pod, claim)
			claim.OwnerReferences[0].UID = "another"
		}))},
		"no-evict-resourceclaim-deallocated": {objects: later, steps: func(b *bubble) {
			claim, err := b.ResourceV1().ResourceClaims("ns").Get(b.Context(), "pod", metav1.GetOptions{})
			b.do(nil, err)
			claim.Status = resourceapi.ResourceClaimStatus{}
			b.updateClaim(claim)
		}},
		"no-evict-resourceclaim-deleted": {objects: later, steps: func(b *bubble) {
			b.do(nil, b.ResourceV1().ResourceClaims("ns").Delete(b.Context(), "pod", metav1.DeleteOptions{}))
		}},
		"ignore-none-effect":    {objects: objectsOf(sliceOf(1, effectOf(none)), onGPU())},
		"ignore-unknown-effect": {objects: objectsOf(sliceOf(1, effectOf("Future")), onGPU())},

		"cancel-eviction-remove-taint": {objects: later, steps: untainted},
		"cancel-eviction-reduce-taint": {objects: later, steps: func(b *bubble) {
			b.updateSlice(sliceOf(1, effectOf(resourceapi.DeviceTaintEffectNoSchedule)))
		}},
		"cancel-eviction-remove-taint-in-new-slice": {objects: later, steps: func(b *bubble) {
			b.do(b.ResourceV1().ResourceSlices().Create(b.Context(), sliceOf(2), metav1.CreateOptions{}))
		}},
		"cancel-eviction-remove-slice": {objects: later, steps: func(b *bubble) {
			b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), "slice-1", metav1.DeleteOptions{}))
		}},
		"cancel-eviction-pod-deletion": {objects: later, steps: func(b *bubble) { b.gone("ns", "pod") }},
	}
}

func effectOf(effect resourceapi.DeviceTaintEffect) resourceapi.DeviceTaint {
	t := taint("broken", seconds(0))
	t.Effect = effect
	return t
}

// changePod changes the pod of onGPU.
func (b *bubble) changePod(change func(*corev1.Pod)) {
	b.Helper()
	pod, err := b.CoreV1().Pods("ns").Get(b.Context(), "pod", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	change(pod)
	b.updatePod(pod)
}

// create adds an object as another client does.
func (b *bubble) create(object runtime.Object) {
	b.Helper()
	if err := b.Tracker().Add(object); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func TestUpstreamScenarios(t *testing.T) {
	for kind, rows := range map[string]map[string]scenario{"evict": evictScenarios(), "quiet": quietScenarios()} {
		if kind == "quiet" && len(rows) < 31 || kind == "evict" && len(rows) < 20 {
			t.Errorf("only %d rows of kind %s", len(rows), kind)
		}
		for name, row := range rows {
			t.Run(name, func(t *testing.T) {
				for _, one := range []bool{false, true} {
					row.run(t, one)
				}
			})
		}
	}
}

// run runs the row, with its objects coming one by one if so.
func (s scenario) run(t *testing.T, oneByOne bool) {
	t.Helper()
	objects := make([]runtime.Object, len(s.objects))
	for i := range s.objects {
		objects[i] = s.objects[i].DeepCopyObject()
	}
	first := objects
	if oneByOne {
		first = nil
	}
	inBubble(t, full, first, func(b *bubble) {
		if oneByOne {
			slices.Reverse(objects)
			for _, object := range objects {
				b.create(object)
			}
		}
		b.pass(10 * time.Second)
		if s.steps != nil {
			s.steps(b)
		}
		b.pass(time.Hour)
		b.expect(s.want)
		if s.status != "" {
			b.expectCondition("rule", s.status)
		}
		for name := range s.want {
			if n := b.calls("patch", "pods/status"); n != len(s.want) {
				t.Errorf("%d conditions for %d pods, among them %s", n, len(s.want), name)
			}
		}
		if n := b.calls("get", "pods"); n > 3 {
			t.Errorf("%d pods were read", n)
		}
	})
}

// TestTaintUntaint is BenchmarkTaintUntaint as a test: what comes and goes before it is
// due leaves nothing behind.
func TestTaintUntaint(t *testing.T) {
	inBubble(t, full, objectsOf(sliceOf(1), onGPU(forSeconds(60))), func(b *bubble) {
		for range 50 {
			b.updateSlice(tainted())
			b.updateSlice(sliceOf(1))
		}
		b.pass(time.Hour)
		b.expect(nil)
		if got := b.controller.tally(types.UID("rule")); got != (tally{}) {
			t.Errorf("tally %+v", got)
		}
	})
}
