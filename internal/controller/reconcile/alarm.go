package reconcile

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Alarm is when to decide again though nothing changes. The zero value is never.
type Alarm struct{ Wake time.Time }

// WakeAt decides again at a time, or before.
func (a *Alarm) WakeAt(at time.Time) {
	if a.Wake.IsZero() || at.Before(a.Wake) {
		a.Wake = at
	}
}

// Lasts reports whether what began at since has lasted for a time, and decides again when it has.
func (a *Alarm) Lasts(now time.Time, since *metav1.Time, least time.Duration) bool {
	if since == nil {
		return false
	}
	if end := since.Add(least); now.Before(end) {
		a.WakeAt(end)
		return false
	}
	return true
}

// Stamp is a time as a status has it, which has no parts of a second: rounded up, so that no duration
// is cut short.
func Stamp(now time.Time) *metav1.Time {
	at := metav1.NewTime(now.Add(time.Second - 1).Truncate(time.Second))
	return &at
}

// DurationOr is a duration of a spec, or the default if there is none.
func DurationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil || d.Duration <= 0 {
		return otherwise
	}
	return d.Duration
}
