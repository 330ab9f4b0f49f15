package capacity_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestHostileSelectorsEnd: a class that is too expensive to evaluate ends soon, and a note says that it has no devices for that.
func TestHostileSelectorsEnd(t *testing.T) {
	for _, expression := range hostile.Expressions() {
		cluster := capacity.Cluster{View: tracker.Merge(classOf("gpu", expression), slice("n1", hostile.Device("gpu-0")))}
		took := hostile.Takes(func() {
			if found, err := cluster.Report(t.Context(), capacity.Scope{Class: "gpu"}, capacity.ByNode); err != nil || len(found.Notes) == 0 || found.Total.Total > 0 {
				t.Errorf("%.200s: got %+v, %v, want no device and a note", expression, found, err)
			}
		})
		if took > 8*hostile.Within {
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}
