package whatif

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/placement"
)

// TestReason: a pod that lands for a while only says how long, one that does not land why not.
func TestReason(t *testing.T) {
	for want, m := range map[string]placement.Move{
		"-": {Verdict: placement.Lands},
		"for 1m0s only: it tolerates the taint that long": {Verdict: placement.Lands, Again: &metav1.Duration{Duration: time.Minute}},
		"waits: no devices": {Verdict: placement.Waits, Reason: &placement.Reason{Message: "no devices"}},
	} {
		if got := reason(m); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
