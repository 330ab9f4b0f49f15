package evictor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestPausedReason: a pod with a reason that is paused and one that is due later is evicted when the paused one goes on.
func TestPausedReason(t *testing.T) {
	const year = 365 * 24 * 3600
	other := tolerate(noExecute, nil)
	other.Key, other.Operator = "example.com/other", resourceapi.DeviceTolerationOpExists
	objects := []runtime.Object{sliceOf(1)}
	for i := range 11 {
		objects = append(objects, both(podOn("ns", fmt.Sprint("pod-", i), "gpu-0", other))...)
	}
	other.TolerationSeconds = ptr.To[int64](year)
	objects = append(objects, both(podOn("ns", "patient", "gpu-0", other))...)
	second := ruleOn("second", "gpu-0", seconds(0))
	second.Spec.Taint.Key = other.Key
	inBubble(t, tripped(), append(objects, second), func(b *bubble) {
		b.createRule(ruleOn("large", "gpu-0", seconds(0)))
		b.pass(time.Minute)
		b.expect(nil)
		b.acknowledge("large", "pods<=100,namespaces<=10")
		b.pass(time.Minute)
		if len(b.deleted) != 12 {
			t.Errorf("%d deleted, want 12", len(b.deleted))
		}
	})
}

// TestCancelledDoNotCount: evictions that are cancelled before the first deletion do not count when the rule evicts again.
func TestCancelledDoNotCount(t *testing.T) {
	options := tripped()
	options.Client = slowPods{verb: "patch", after: 2 * time.Second}
	objects := []runtime.Object{sliceOf(1)}
	for i := range 8 {
		objects = append(objects, both(podOn(slowNamespace, fmt.Sprint("pod-", i), "gpu-0"))...)
	}
	inBubble(t, options, objects, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		effect := func(effect resourceapi.DeviceTaintEffect) {
			b.pass(time.Second)
			b.updateRule("rule", func(r *resourceapi.DeviceTaintRule) { r.Spec.Taint.Effect = effect })
		}
		effect(resourceapi.DeviceTaintEffectNoSchedule)
		b.pass(5 * time.Second)
		b.expect(nil)
		effect(resourceapi.DeviceTaintEffectNoExecute)
		b.pass(time.Minute)
		if len(b.deleted) != 8 {
			t.Errorf("%d deleted, want 8", len(b.deleted))
		}
	})
}

// TestEndedByThemselves: pods that end after the evictions have stopped are not counted as evicted after a restart.
func TestEndedByThemselves(t *testing.T) {
	options := Options{Mode: ModeFull, Limits: Limits{PerSecond: 1}, Journal: &book{}}
	inBubble(t, options, append(manyOn("gpu-0", 30), sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(3 * time.Second)
		b.updateRule("rule", func(r *resourceapi.DeviceTaintRule) { r.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoSchedule })
		b.pass(time.Minute)
		evicted := len(b.deleted)
		for i := range 30 {
			name := fmt.Sprint("on-gpu-0-", i)
			if _, is := b.deleted["ns/"+name]; !is {
				b.gone("ns", name)
			}
		}
		b.pass(24 * time.Hour)
		b.stop()
		b.start(options)
		b.pass(time.Minute)
		if got := b.controller.tally("rule").Evicted; got != evicted {
			t.Errorf("%d pods evicted, the restarted controller says %d", evicted, got)
		}
	})
}

// TestJournalRetries: a journal that cannot be written is tried once a second, also while pods come.
func TestJournalRetries(t *testing.T) {
	journal := &book{err: errors.New("the API server is away")}
	inBubble(t, Options{Mode: ModeFull, Journal: journal}, append(manyOn("gpu-0", 3), sliceOf(1, taint("broken", seconds(0)))), func(b *bubble) {
		for i := range 500 {
			b.comesOn("ns", fmt.Sprint("pod-", i), "gpu-1")
			b.pass(20 * time.Millisecond)
		}
		if n := journal.count(); n < 5 || n > 11 {
			t.Errorf("%d writes in 10 s, want 10", n)
		}
		b.expect(nil)
	})
}

// TestReasonIsOfToday: the reason of an eviction names the taint that the driver has now, also if it has the time of the one
// before.
func TestReasonIsOfToday(t *testing.T) {
	at := seconds(0)
	before, after := taint("xid", at), taint("xid", at)
	before.Value, after.Value = "48", "79"
	inBubble(t, full, append(both(podOn("ns", "pod", "gpu-0", forSeconds(60))), sliceOf(1, before)), func(b *bubble) {
		b.updateSlice(sliceOf(1, after))
		b.pass(time.Second)
		verdict, _ := b.controller.verdict(types.NamespacedName{Namespace: "ns", Name: "pod"})
		if len(verdict.Reasons) != 1 || verdict.Reasons[0].Taint.Value != "79" {
			t.Errorf("%+v", verdict)
		}
	})
}

// TestObsoleteSliceDilutesNothing: a driver that taints all devices of the newest generation has tainted all, also while a
// slice of an earlier one is still there.
func TestObsoleteSliceDilutesNothing(t *testing.T) {
	options := tripped()
	options.Thresholds.Percent = 25
	all := sliceOf(2)
	for i := range all.Spec.Devices {
		all.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{taint("broken", seconds(0))}
	}
	for name, slices := range map[string][]runtime.Object{"alone": {all}, "obsolete slice": {sliceOf(1), all}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, append(manyOn("gpu-0", 3), slices...), func(b *bubble) {
				b.pass(time.Minute)
				b.expect(nil)
				b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), "slice-2", metav1.DeleteOptions{}))
			})
		})
	}
	inBubble(t, options, append(manyOn("gpu-0", 3), sliceOf(1)), func(b *bubble) {
		b.do(b.ResourceV1().ResourceSlices().Create(b.Context(), all, metav1.CreateOptions{}))
		b.pass(time.Minute)
		b.expect(nil)
	})
}
