package evictor_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/devicetainteviction"
	"k8s.io/kubernetes/pkg/features"

	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// horizon is how long the controllers run, in the time of the bubble: longer than any
// toleration that ends.
const horizon = time.Minute

// inTree runs the controller of Kubernetes on the objects and returns which pods it
// deletes and when.
func inTree(t *testing.T, objects []runtime.Object) map[types.NamespacedName]time.Time {
	client := fake.NewClientset(objects...)
	deleted := map[types.NamespacedName]time.Time{}
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		deleted[types.NamespacedName{Namespace: action.GetNamespace(), Name: name}] = time.Now()
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	resource := factory.Resource().V1()
	controller := devicetainteviction.New(client, factory.Core().V1().Pods(), resource.ResourceClaims(),
		resource.ResourceSlices(), resource.DeviceTaintRules(), resource.DeviceClasses(), "device-taint-eviction-controller")
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	done := make(chan error)
	go func() { done <- controller.Run(ctx, 1) }()
	after := time.NewTimer(horizon)
	<-after.C
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	factory.Shutdown()
	return deleted
}

// A bug makes the controller of Kubernetes decide otherwise. It changes what we decide
// into what that controller does.
type bug struct {
	name     string
	settings func(*evictor.Semantics)
	pod      func(*corev1.Pod)
	verdict  func(*evictor.Verdict)
}

// bugs are all differences that there may be.
var bugs = []bug{
	{name: "1: extended resources are not looked at", pod: func(p *corev1.Pod) { p.Status.ExtendedResourceClaimStatus = nil }},
	{name: "2: tolerations with an empty effect do not count", settings: func(s *evictor.Semantics) { s.EmptyEffect = toleration.EmptyEffectNoSchedule }},
	{name: "3: tolerationSeconds overflow", verdict: func(v *evictor.Verdict) {
		for i := range v.Reasons {
			if r := &v.Reasons[i]; r.TolerationSeconds != nil {
				r.At = r.Taint.TimeAdded.Add(time.Duration(*r.TolerationSeconds) * time.Second)
			}
		}
	}},
	{name: "14: pods that have finished are deleted", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
}

// decide is our decision, changed by the bugs: when the pod is deleted within the
// horizon.
func (w *world) decide(pod *corev1.Pod, with ...bug) (time.Time, bool) {
	pod = pod.DeepCopy()
	settings := evictor.Semantics{IgnorePodGroups: !utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims)}
	for _, b := range with {
		if b.settings != nil {
			b.settings(&settings)
		}
		if b.pod != nil {
			b.pod(pod)
		}
	}
	verdict := evictor.DecidePod(pod, w, w, settings, w.start)
	for _, b := range with {
		if b.verdict != nil {
			b.verdict(&verdict)
			verdict = evictor.Merge(verdict)
		}
	}
	if !verdict.Evict() || verdict.At.After(w.start.Add(horizon)) {
		return time.Time{}, false
	}
	if verdict.At.Before(w.start) {
		return w.start, true
	}
	return verdict.At, true
}

// TestDifferencesAreTheNamedBugs runs both on the same worlds. Where they differ, the
// fewest bugs that explain it are counted; nothing may be left unexplained.
func TestDifferencesAreTheNamedBugs(t *testing.T) {
	const worlds = 500
	seen, evicted, pods := map[string]int{}, 0, 0
	synctest.Test(t, func(t *testing.T) {
		var all []*world
		var objects []runtime.Object
		for i := range worlds {
			w := newWorld(i, 37, time.Now())
			all, objects = append(all, w), append(objects, w.objects()...)
		}
		deleted := inTree(t, objects)
		for _, w := range all {
			for _, pod := range w.pods {
				pods++
				at, is := deleted[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
				if is {
					evicted++
				}
				explained := explain(w, pod, at, is)
				if explained == nil {
					ours, will := w.decide(pod)
					t.Errorf("%s/%s: Kubernetes deletes it: %t at %s; we: %t at %s; no known bug explains that", pod.Namespace, pod.Name, is, at, will, ours)
				}
				for _, b := range explained {
					seen[b.name]++
				}
			}
		}
	})
	for _, b := range bugs {
		if seen[b.name] == 0 {
			t.Errorf("bug %s was never seen: it is fixed, or the worlds do not show it", b.name)
		}
	}
	t.Logf("%d pods, %d deleted by Kubernetes", pods, evicted)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("bug %s: %d pods", name, seen[name])
	}
}

// explain returns the fewest bugs that turn our decision into the other; an empty list
// if they are the same, nil if there are none.
func explain(w *world, pod *corev1.Pod, at time.Time, is bool) []bug {
	for size := range len(bugs) + 1 {
		for subset := range 1 << len(bugs) {
			with := []bug{}
			for i, b := range bugs {
				if subset>>i&1 == 1 {
					with = append(with, b)
				}
			}
			if len(with) != size {
				continue
			}
			if ours, will := w.decide(pod, with...); will == is && ours.Equal(at) {
				return with
			}
		}
	}
	return nil
}
