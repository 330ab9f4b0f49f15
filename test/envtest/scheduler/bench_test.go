package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// BenchmarkPatchToBound waits with a pod for a patch: -benchtime 50x is 50 rounds.
func BenchmarkPatchToBound(b *testing.B) {
	w := start(b, onlyPatched, "node-0")
	w.installType(b)
	w.grant(b)
	w.publish(b, "node-0", resourceapi.Device{Name: "a"})
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
		if err := w.CoreV1().Pods("default").Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		eventually(b, "the device is free", func() bool {
			claim, err := w.ResourceV1().ResourceClaims("default").Get(b.Context(), name, metav1.GetOptions{})
			return err == nil && claim.Status.Allocation == nil
		})
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

// BenchmarkThroughput schedules 500 pods with a claim each, beside the released
// kube-scheduler, without its limit of requests. The pods are there when the scheduler
// starts; measured is from the first binding to the last one. Then 50 pods come one
// after the other: measured is from the request for the pod until it is seen to be bound.
func BenchmarkThroughput(b *testing.B) {
	const fast = "clientConnection: {qps: 5000, burst: 5000}\n"
	for _, extra := range []int{0, 10000} {
		b.Run(fmt.Sprintf("%d more slices/stock", extra), func(b *testing.B) {
			throughput(b, func(nodes []string) *world { return startProgram(b, "", fast, nodes...) }, extra, 0)
		})
		for _, patches := range []int{0, 100, 1000} {
			b.Run(fmt.Sprintf("%d more slices/%d patches", extra, patches), func(b *testing.B) {
				throughput(b, func(nodes []string) *world { return start(b, fast+onlyPatched, nodes...) }, extra, patches)
			})
		}
	}
}

func throughput(b *testing.B, start func(nodes []string) *world, extra, patches int) {
	const pods, devices = 500, 64
	var nodes []string
	for i := range 10 {
		nodes = append(nodes, fmt.Sprintf("node-%d", i))
	}
	for range b.N {
		w := start(nodes)
		w.installType(b)
		w.grant(b)
		var work []func()
		for _, node := range nodes {
			var all []resourceapi.Device
			for i := range devices {
				all = append(all, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
			}
			work = append(work, func() { w.publish(b, node, all...) })
		}
		for i := range extra {
			work = append(work, func() { w.publish(b, fmt.Sprintf("other-%d", i), resourceapi.Device{Name: "gpu-0"}) })
		}
		for i := range patches {
			work = append(work, func() {
				w.patch(b, fmt.Sprintf("patch-%d", i), fmt.Sprintf(`{filter: {pool: node-%d}, attributes: {dc.example.com/rack-%d: {string: r}}}`, i%len(nodes), i%20))
			})
		}
		if err := w.StopComponent(assets.Scheduler); err != nil {
			b.Fatal(err)
		}
		for i := range pods {
			work = append(work, func() { w.ask(b, fmt.Sprintf("pod-%d", i), "", "") })
		}
		parallel(work)
		bound := w.bindings(b)
		if err := w.StartComponent(b.Context(), assets.Scheduler); err != nil {
			b.Fatal(err)
		}
		first := next(b, bound)
		spent := w.processorTime(b)
		last := first
		for range pods - 1 {
			last = next(b, bound)
		}
		b.ReportMetric((pods-1)/last.Sub(first).Seconds(), "pods/s")
		b.ReportMetric((w.processorTime(b)-spent).Seconds()*1000/(pods-1), "scheduler-cpu-ms/pod")
		var took []time.Duration
		for i := range 50 {
			begin := time.Now()
			w.ask(b, fmt.Sprintf("single-%d", i), "", "")
			took = append(took, next(b, bound).Sub(begin))
		}
		reportTimes(b, took)
	}
}

// processorTime is what the scheduler has taken of the processors, which depends less on
// what else the machine does.
func (w *world) processorTime(b *testing.B) time.Duration {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		command, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(command), "--config="+w.Dir()) {
			continue // gone, or another process
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		if err != nil {
			b.Fatal(err)
		}
		// After the name, which may have spaces: the state is the third field.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		ticks := 0
		for _, field := range fields[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
		return time.Duration(ticks) * 10 * time.Millisecond
	}
	b.Fatal("the scheduler is not found in /proc")
	return 0
}

// parallel does work in the given order, some of it at a time.
func parallel(work []func()) {
	var all sync.WaitGroup
	next := make(chan func())
	for range 16 {
		all.Go(func() {
			for do := range next {
				do()
			}
		})
	}
	for _, do := range work {
		next <- do
	}
	close(next)
	all.Wait()
}
