package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// BenchmarkPatchToBound waits with a pod for a patch: -benchtime 50x is 50 rounds.
func BenchmarkPatchToBound(b *testing.B) {
	w := start(b, onlyPatched, "node-0")
	w.installType(b)
	w.grant(b)
	w.publish(b, "node-0", resourceapi.Device{Name: "a"})
	// The API server keeps the first object of a new type waiting for two seconds.
	w.patch(b, "first", "{attributes: {dc.example.com/round: {int: -2}}}")
	w.unpatch(b, "first")
	var took []time.Duration
	for i := range b.N {
		name := fmt.Sprintf("round-%d", i)
		w.ask(b, name, "", fmt.Sprintf(`device.attributes["dc.example.com"].?round.orValue(-1) == %d`, i))
		w.isPending(b, name)
		bound := w.bindings(b)
		begin := time.Now()
		w.patch(b, name, fmt.Sprintf(`{priority: %d, attributes: {dc.example.com/round: {int: %d}}}`, i, i))
		took = append(took, next(b, bound).Sub(begin))
		had := w.isBound(b, name)
		w.unpatch(b, name)
		if now := w.device(b, name); now != had {
			b.Errorf("without the patch the pod has %q, it had %q", now, had)
		}
		w.free(b, name)
	}
	slices.Sort(took)
	reportTimes(b, took)
}

// reportTimes reports the median and the longest.
func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
}

// bindings returns the times at which pods are seen to be bound from now on. It reads with
// an informer: an API server ends the watch of one who reads too slowly.
func (w *world) bindings(t testing.TB) <-chan time.Time {
	t.Helper()
	times := make(chan time.Time, 10000)
	factory := informers.NewSharedInformerFactory(w.Interface, 0)
	seen := map[string]bool{} // handlers are called one after the other
	note := func(object any, initial bool) {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || seen[pod.Name] {
			return
		}
		seen[pod.Name] = true
		if !initial {
			times <- time.Now()
		}
	}
	handle, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: note, UpdateFunc: func(_, object any) { note(object, false) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		t.Fatal("the pods are not read")
	}
	return times
}

// next waits for the next binding.
func next(t testing.TB, bound <-chan time.Time) time.Time {
	t.Helper()
	select {
	case at := <-bound:
		return at
	case <-time.After(10 * time.Minute):
		t.Fatal("no pod is bound any more")
		return time.Time{}
	}
}

// parallel does work in the given order, some of it at a time.
func parallel(t testing.TB, work []func()) {
	t.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, do := range work {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }() // also when do fails the test, which ends its goroutine
			do()
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
