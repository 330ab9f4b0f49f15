package evictor

import (
	"fmt"
	"math"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestLimiterForgetsNamespaces: a namespace without evictions for a while has a full bucket,
// which the limiter need not keep.
func TestLimiterForgetsNamespaces(t *testing.T) {
	l := newLimiter(Limits{PerSecond: 1000, PerNamespace: 1})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		l.delay(fmt.Sprint("ns-", i), now)
		now = now.Add(time.Second)
	}
	if n := len(l.namespaces); n > 2*int(bucketsPeriod/time.Second) {
		t.Errorf("%d buckets after 1000 namespaces, one a second", n)
	}
	if wait, global := l.delay("ns-999", now); wait != 0 || global {
		t.Errorf("the last namespace waits %s", wait)
	}
	if wait, _ := l.delay("ns-999", now); wait == 0 {
		t.Error("a bucket was dropped before it was full")
	}
}

// TestTolerationsBeyondTimes: a toleration that ends after the year 9999 has no end. The
// rule would otherwise have a pending pod that is never evicted.
func TestTolerationsBeyondTimes(t *testing.T) {
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "gpu-0"}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := endOfTime.Unix() - start.Unix()
	for seconds, pending := range map[int64]bool{math.MaxInt64: false, math.MaxInt64 - 1: false, last: false, last - 1: true, 1 << 33: true, 60: true} {
		claim.Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{
			Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: &seconds,
		}}
		v := Decide(claim, TaintsFunc(func(DeviceID) []Taint {
			return []Taint{{DeviceTaint: resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: ptr.To(metav1.NewTime(start))}}}
		}), Semantics{}, start)
		if v.ends().Evict() != pending {
			t.Errorf("%d seconds: %s", seconds, v.Explain(start))
		}
	}
}

// TestSleepIsBounded: timers stop while a machine is suspended, so that no wait is long.
func TestSleepIsBounded(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{0: maxSleep, time.Second: time.Second, time.Hour: maxSleep} {
		if got := boundedSleep(wait); got != want {
			t.Errorf("%s becomes %s, want %s", wait, got, want)
		}
	}
}
