package whatif

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
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

// TestArrivingClaimExists: a claim of the file that exists keeps its devices.
func TestArrivingClaimExists(t *testing.T) {
	claim := func(name string) *resourceapi.ResourceClaim {
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	}
	exists := claim("exists")
	exists.Status.Allocation = &resourceapi.AllocationResult{}
	change := arriving(&clusterread.Manifests{Claims: []*resourceapi.ResourceClaim{claim("exists"), claim("new")}}, placement.Cluster{Claims: []*resourceapi.ResourceClaim{exists}})
	if got := change.After.Claims; len(got) != 2 || got[0] != exists || got[1].Name != "new" {
		t.Errorf("got %v", got)
	}
}
