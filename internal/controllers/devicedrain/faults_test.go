package devicedrain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// TestKnownFault: the condition follows the version of the cluster, and stays while that
// cannot be read.
func TestKnownFault(t *testing.T) {
	in := newWorld(t, 1, nil).input()
	for _, tt := range []struct {
		version string
		want    bool
	}{{"", false}, {"v1.37.0", false}, {"v1.36.2", true}, {"", true}, {"v1.36.0-gke.1", true}, {"v1.36.3", false}} {
		in.Version = tt.version
		in.Drain.Status = drain.Decide(in).Status
		found := meta.FindStatusCondition(in.Drain.Status.Conditions, v1alpha1.DrainKnownFault)
		if (found != nil) != tt.want || found != nil && !strings.Contains(found.Message, "kubernetes#139651") {
			t.Errorf("%q: %+v", tt.version, found)
		}
	}
}

// TestKnownFaultIsAnnounced: the controller reads the version, and makes an event.
func TestKnownFaultIsAnnounced(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.stop()
		p.serverVersion = "v1.36.1"
		p.start()
		p.drain("firmware", 1, nil)
		p.pass(2 * time.Second)
		p.expect("firmware", "KnownFault=True KnownFault")
		if said := p.said(); !slices.ContainsFunc(said, func(e string) bool {
			return strings.HasPrefix(e, "Warning KnownFault the API server is v1.36.1: kube-scheduler 1.36.0 to before 1.36.3")
		}) {
			t.Errorf("no event in %q", said)
		}
	})
}
