package server

import (
	"iter"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestSampleIsKept: devices are chosen once for a snapshot of the tracker.
func TestSampleIsKept(t *testing.T) {
	w := &ClusterView{tracked: tracker.New(tracker.Options{})}
	chosen := 0
	choose := func(iter.Seq[*resourceapi.ResourceSlice]) any { chosen++; return chosen }
	if first, second := w.Sample(choose), w.Sample(choose); first != 1 || second != 1 {
		t.Errorf("chose %v, then %v; want the first twice", first, second)
	}
	w.sample.Store(&sample{of: tracker.Merge(), chosen: "of another snapshot"})
	if again := w.Sample(choose); again != 2 {
		t.Errorf("got %v for another snapshot, want another choice", again)
	}
}
