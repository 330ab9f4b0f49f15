package evictor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/guard"
)

const otherDriver = "other.example.com"

// forged is a slice of another driver with the pool, the devices and a newer generation of
// the first driver, all tainted.
func forged() *resourceapi.ResourceSlice {
	slice := sliceOf(7)
	slice.Name, slice.UID, slice.Spec.Driver = "forged", "forged", otherDriver
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{taint("broken", seconds(0))}
	}
	// One more, so that the driver does not taint all of its devices, which is paused.
	slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: "gpu-3"})
	return slice
}

// ofOther are pods with devices of the other driver.
func ofOther(n int) (objects []runtime.Object) {
	for i := range n {
		pod, claim := podOn("ns", fmt.Sprint("other-", i), "gpu-0")
		claim.Status.Allocation.Devices.Results[0].Driver = otherDriver
		objects = append(objects, pod, claim)
	}
	return objects
}

func (b *bubble) count(prefix string) (n int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for name := range b.deleted {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// TestForgedSliceOfAnotherDriver: a driver that publishes the pool and the devices of another
// one evicts no pod from them, and hides no taint of them.
func TestForgedSliceOfAnotherDriver(t *testing.T) {
	objects := append(manyOn("gpu-0", 3), sliceOf(1), forged())
	inBubble(t, full, objects, func(b *bubble) {
		b.pass(time.Hour)
		b.expect(nil)
		b.updateSlice(sliceOf(1, taint("broken", seconds(0)))) // by the driver that publishes it
		b.pass(time.Minute)
		if got := b.count("ns/on-gpu-0"); got != 3 {
			t.Errorf("%d pods evicted", got)
		}
	})
}

// TestForgedSliceSpendsItsOwnBudget: the evictions that a driver causes count for that driver
// alone. If it exceeds the thresholds, another driver's evictions go on; the acknowledged
// impact of one driver is none for another.
func TestForgedSliceSpendsItsOwnBudget(t *testing.T) {
	options := tripped() // ten pods
	objects := append(append(manyOn("gpu-0", 8), ofOther(30)...), sliceOf(1), forged())
	inBubble(t, options, objects, func(b *bubble) {
		b.pass(time.Minute)
		b.expect(nil) // the other driver is paused: 30 pods
		b.updateSlice(sliceOf(1, taint("broken", seconds(0))))
		b.pass(time.Minute)
		if got := b.count("ns/on-gpu-0"); got != 8 {
			t.Errorf("%d of 8 pods evicted for the taint of their driver", got)
		}
		b.controller.Confirm(Confirmation{Ceilings: map[string]guard.Ceiling{"gpu.example.com": {Pods: ptr.To(1000)}}})
		b.pass(time.Minute)
		if got := b.count("ns/other-"); got != 0 {
			t.Errorf("%d pods evicted with the acknowledged impact of another driver", got)
		}
		b.controller.Confirm(Confirmation{Ceilings: map[string]guard.Ceiling{otherDriver: {Pods: ptr.To(1000)}}})
		b.pass(time.Minute)
		if got := b.count("ns/other-"); got != 30 {
			t.Errorf("%d of 30 pods evicted with the acknowledged impact of their driver", got)
		}
	})
}

// TestSliceInTheNameOfADriver: no field of a slice proves its author, so a slice that names a
// driver counts as one of that driver. The thresholds of that driver bound what it evicts, and
// its pods are evicted no more when the slice is gone.
func TestSliceInTheNameOfADriver(t *testing.T) {
	newer := forged()
	newer.Spec.Driver = "gpu.example.com"
	inBubble(t, tripped(), append(manyOn("gpu-0", 30), sliceOf(1), newer), func(b *bubble) {
		b.pass(time.Hour)
		b.expect(nil)
		b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), newer.Name, metav1.DeleteOptions{}))
		b.pass(time.Hour)
		b.expect(nil)
		verdict, _ := b.controller.verdict(types.NamespacedName{Namespace: "ns", Name: "on-gpu-0-0"})
		if verdict.Evict() {
			t.Errorf("after the slice is gone: %s", verdict.Explain(time.Now()))
		}
	})
}
