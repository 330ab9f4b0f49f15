package why

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestHostileSelectors: what is too expensive is soon explained, as what is not known and not as what fails.
func TestHostileSelectors(t *testing.T) {
	for i, expression := range hostile.Expressions() {
		of, asked := class(), claim("c", func(c *resourceapi.ResourceClaim) { request(c).Selectors = cel(expression) })
		if i%2 == 0 {
			of, asked = class(expression), claim("c", nil)
		}
		w := Cluster{View: tracker.Merge(of, slice("n1", hostile.Device("gpu-0"))), Claims: []*resourceapi.ResourceClaim{asked}}
		took := hostile.Takes(func() {
			report, err := w.Explain(t.Context(), asked, nil)
			if err != nil {
				t.Errorf("%.200s: %v", expression, err)
				return
			}
			for _, cause := range report.Causes {
				if cause.Kind == SelectorError && !strings.Contains(cause.Message, "is not known") {
					t.Errorf("%.200s: %.300s", expression, cause.Message)
				}
			}
			if report.Verdict == Allocatable {
				t.Errorf("%.200s: is said to be allocatable", expression)
			}
		})
		if took > 10*time.Second { // it asks the expression a dozen times
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}
