// Package lease finds out if a Lease is held, without comparing the clocks of two machines.
package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// An Observed is a Lease as it was last read, and when it was first read so: the times in a Lease are those of the
// clock of its holder, which may differ from this one. The zero value has read no Lease.
type Observed struct {
	spec  coordinationv1.LeaseSpec
	since time.Time
}

// skew is by how much clocks may differ where a Lease is read for the first time.
const skew = 24 * time.Hour

// Holder returns the holder, or "" if the Lease has none or has not changed for its duration. A Lease that is read for the
// first time counts as held, unless it expired so long ago that no clock explains it.
func (o *Observed) Holder(s coordinationv1.LeaseSpec, now time.Time) string {
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return ""
	}
	lasts := time.Duration(*s.LeaseDurationSeconds) * time.Second
	switch first := o.since.IsZero(); {
	case first && now.Sub(s.RenewTime.Time) > lasts+skew:
		o.spec, o.since = s, now.Add(-lasts)
	case first || !equality.Semantic.DeepEqual(o.spec, s):
		o.spec, o.since = s, now
	}
	if now.Sub(o.since) >= lasts {
		return ""
	}
	return *s.HolderIdentity
}
