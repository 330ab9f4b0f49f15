package lease_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/controller/lease"
)

// TestHolder: a Lease is held while it is renewed, whatever the clock of its holder shows, and not once it has not been
// renewed for as long as it lasts.
func TestHolder(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	spec := func(holder string, skew time.Duration) coordinationv1.LeaseSpec {
		return coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(skew)))}
	}
	type read struct {
		after time.Duration
		spec  coordinationv1.LeaseSpec
		want  string
	}
	for name, reads := range map[string][]read{
		"renewed, by a clock that is late": {{0, spec("a", -time.Hour), "a"}, {14 * time.Second, spec("a", -time.Hour+time.Second), "a"}, {28 * time.Second, spec("a", -time.Hour+time.Second), "a"}, {29 * time.Second, spec("a", -time.Hour+time.Second), ""}},
		"ended, by a clock that is early":  {{0, spec("a", time.Hour), "a"}, {14 * time.Second, spec("a", time.Hour), "a"}, {15 * time.Second, spec("a", time.Hour), ""}},
		"released":                         {{0, spec("a", 0), "a"}, {time.Second, spec("", time.Second), ""}},
		"another holder":                   {{0, spec("a", 0), "a"}, {14 * time.Second, spec("b", 0), "b"}, {28 * time.Second, spec("b", 0), "b"}},
		"of a month ago":                   {{0, spec("a", -30*24*time.Hour), ""}, {time.Second, spec("a", -30*24*time.Hour), ""}, {2 * time.Second, spec("a", time.Second), "a"}},
		"new":                              {{0, coordinationv1.LeaseSpec{}, ""}},
	} {
		var seen lease.Observed
		for _, r := range reads {
			if got := seen.Holder(r.spec, now.Add(r.after)); got != r.want {
				t.Errorf("%s: after %s held by %q, want %q", name, r.after, got, r.want)
			}
		}
	}
}
