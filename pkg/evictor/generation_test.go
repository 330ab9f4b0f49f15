package evictor

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// without is a slice without gpu-0.
func without(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Spec.Devices = slice.Spec.Devices[1:]
	return slice
}

// incomplete is a slice of a generation of two.
func incomplete(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Spec.Pool.ResourceSliceCount = 2
	return slice
}

// TestObsoleteGeneration: taints of a generation that a complete newer one replaces evict
// no pods, whether the newer one has the device or not.
func TestObsoleteGeneration(t *testing.T) {
	for name, newer := range map[string]*resourceapi.ResourceSlice{"without the device": without(sliceOf(2)), "with the device": sliceOf(2)} {
		t.Run(name, func(t *testing.T) {
			pod, claim := podOn("ns", "pod", "gpu-0")
			inBubble(t, full, []runtime.Object{sliceOf(1, taint("broken", seconds(0))), newer, pod, claim}, func(b *bubble) {
				b.pass(time.Hour)
				b.expect(nil)
				// The older generation is the newest again.
				b.do(nil, b.ResourceV1().ResourceSlices().Delete(b.Context(), newer.Name, metav1.DeleteOptions{}))
				b.pass(time.Second)
				b.expect(deletions{"ns/pod": time.Hour})
			})
		})
	}
}

// TestGenerationBecomesComplete: the last slice of a newer generation cancels evictions for
// devices that it lacks, although nothing changes in the slice that has them.
func TestGenerationBecomesComplete(t *testing.T) {
	for name, complete := range map[string]func(b *bubble){
		"last slice": func(b *bubble) {
			last := incomplete(without(sliceOf(2)))
			last.Name, last.UID, last.Spec.Devices = "slice-2b", "slice-2b", nil
			b.do(b.ResourceV1().ResourceSlices().Create(b.Context(), last, metav1.CreateOptions{}))
		},
		"lower count": func(b *bubble) { b.updateSlice(without(sliceOf(2))) },
	} {
		t.Run(name, func(t *testing.T) {
			pod, claim := podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
			inBubble(t, full, []runtime.Object{sliceOf(1, taint("broken", seconds(0))), incomplete(without(sliceOf(2))), pod, claim}, func(b *bubble) {
				b.pass(10 * time.Second)
				complete(b)
				b.pass(time.Hour)
				b.expect(nil)
			})
		})
	}
}

// TestOnlyTheGenerationChanges: a slice that becomes the newest of its pool by its
// generation alone makes its taints count, and cancels those of others.
func TestOnlyTheGenerationChanges(t *testing.T) {
	pod, claim := podOn("ns", "pod", "gpu-0")
	inBubble(t, full, []runtime.Object{sliceOf(1, taint("broken", seconds(0))), sliceOf(2), pod, claim}, func(b *bubble) {
		b.pass(time.Minute)
		b.expect(nil)
		newest := sliceOf(1, taint("broken", seconds(0)))
		newest.Spec.Pool.Generation = 3
		b.updateSlice(newest)
		b.pass(time.Second)
		b.expect(deletions{"ns/pod": time.Minute})
	})
	pod, claim = podOn("ns", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](60)))
	inBubble(t, full, []runtime.Object{sliceOf(1), sliceOf(2, taint("broken", seconds(0))), pod, claim}, func(b *bubble) {
		b.pass(time.Second)
		newest := sliceOf(1)
		newest.Spec.Pool.Generation = 3
		b.updateSlice(newest)
		b.pass(time.Hour)
		b.expect(nil)
	})
}
