package validate

import (
	"context"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
)

// TestHostileSelectorsEnd holds that an evaluation ends soon, and neither matches nor differs.
func TestHostileSelectorsEnd(t *testing.T) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: hostile.Driver, Devices: []resourceapi.Device{hostile.Device("gpu-0")}}}
	e := &Evaluations{}
	for _, expression := range hostile.Expressions() {
		took := hostile.Takes(func() {
			turn, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if result, _ := e.compute(e.of(claimAuthor), expression, slice, &slice.Spec.Devices[0], turn); result != expensive && result != unknown {
				t.Errorf("%.200s: got the outcome %d", expression, result)
			}
		})
		if took > hostile.Within {
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}
