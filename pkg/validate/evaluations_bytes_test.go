package validate

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestEvaluationsAreBounded: distinct expressions and replaced slices do not make the heap
// grow beyond the bytes that are remembered.
func TestEvaluationsAreBounded(t *testing.T) {
	const cacheBytes = 4 << 20
	e := &Evaluations{CacheBytes: cacheBytes}
	before := heapBytes()
	for i := range 5000 {
		slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Devices: make([]resourceapi.Device, 128)}}
		for _, expression := range []string{
			fmt.Sprintf("device.driver == %q", fmt.Sprintf("%d", i)),
			fmt.Sprintf("device.driver == %q", strings.Repeat("x", 8<<10)+fmt.Sprint(i)),
		} {
			selectors := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
			known := e.recall(claimAuthor, selectors, slice, nil)
			if i%200 == 0 {
				work := &effort{turn: context.Background(), done: func() {}}
				if got, _ := e.evaluate(claimAuthor, expression, slice, 0, known[0], work); got != differs {
					t.Fatalf("%s: %v", expression[:40], got)
				}
			}
		}
	}
	if grown := heapBytes() - before; grown > 2*cacheBytes {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	runtime.KeepAlive(e)
}

// TestProgramsAreBounded: the size that is assumed of a program is not too small.
func TestProgramsAreBounded(t *testing.T) {
	const cacheBytes = 16 << 20
	e := &Evaluations{CacheBytes: cacheBytes}
	e.program(e.of(claimAuthor), "true")
	before := heapBytes()
	for i := range 600 {
		terms := make([]string, 20)
		for j := range terms {
			terms[j] = fmt.Sprintf("device.driver != 'd%d-%d'", i, j)
		}
		if result := e.program(e.of(claimAuthor), strings.Join(terms, " && ")); result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	grown, counted := heapBytes()-before, e.of(claimAuthor).programs.Size()
	if counted > cacheBytes/4 || grown > 2*cacheBytes {
		t.Errorf("the heap grew by %d KiB, counted are %d", grown>>10, counted>>10)
	}
	t.Logf("the heap grew by %d KiB, counted are %d", grown>>10, counted>>10)
	runtime.KeepAlive(e)
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
