package impact

import (
	"slices"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/windows"
)

// A waitingDrain begins to evict whenever one of its windows opens.
type waitingDrain struct {
	object   string
	openings []time.Time
	// hit is what it affects at present.
	hit func() guard.Hit
}

// begun returns the evictions that count with one that begins at a time: those that began, the writes of a caller that
// are not stored yet, and the drains that begin when it does. A drain begins when it is written, and whenever one of its windows
// opens.
func (b *beginnings) begun(admitted *admissions, now time.Time, window time.Duration) guard.Begun {
	counted := sync.OnceValues(func() ([]guard.Start, time.Time) { return b.starts(admitted, now, window) })
	waits := sync.OnceValue(func() []waitingDrain { return b.waits(now, window) })
	return func(object string, at time.Time) ([]guard.Start, time.Time) {
		starts, omitted := counted()
		all, waiting := slices.Clone(starts), waits()
		if at.After(now) { // it counts then, though it counts now, too
			all = slices.DeleteFunc(all, func(s guard.Start) bool { return s.Object == object || at.Sub(s.Time) >= window })
		}
		for _, drain := range waiting {
			opens, near := drain.near(at, window)
			k := slices.IndexFunc(all, func(s guard.Start) bool { return s.Object == drain.object })
			switch {
			case !near:
			case k >= 0: // it was written within the window
				if opens.After(all[k].Time) {
					all[k].Time = opens
				}
			case len(all) >= guard.MostStarts:
				omitted = now
			default:
				all = append(all, guard.Start{Object: drain.object, Time: opens, Hit: drain.hit()})
			}
		}
		return all, omitted
	}
}

// begins are when what is written begins to evict within a week.
func begins(object any, now time.Time) []time.Time {
	if drain, is := object.(*v1alpha1.DeviceDrain); is {
		return windows.Begins(drain.Spec.Windows, now)
	}
	return []time.Time{now}
}

// near returns when a drain begins within a time of another one.
func (d waitingDrain) near(at time.Time, window time.Duration) (time.Time, bool) {
	k := slices.IndexFunc(d.openings, func(opens time.Time) bool { return opens.Sub(at).Abs() < window })
	if k < 0 {
		return time.Time{}, false
	}
	return d.openings[k], true
}

// wait remembers a drain while it evicts in windows.
func (b *beginnings) wait(one beginning, evicts bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.waiting, one.object)
	if !evicts || len(one.windows) == 0 {
		return
	}
	if b.waiting == nil {
		b.waiting = map[string]beginning{}
	}
	b.waiting[one.object] = one
}

// waits are the drains with windows.
func (b *beginnings) waits(now time.Time, window time.Duration) (all []waitingDrain) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for object, one := range b.waiting {
		all = append(all, waitingDrain{object, windows.Openings(one.windows, now.Add(-window)), sync.OnceValue(func() guard.Hit {
			return one.affects().Pace(one.perMinute, window)
		})})
	}
	return all
}

// opens reports whether a drain that waited for a window evicts now.
func opens(old, d *v1alpha1.DeviceDrain) bool {
	return old != nil && guard.WidensDrain(nil, d) && !apimeta.IsStatusConditionTrue(old.Status.Conditions, v1alpha1.DrainDraining) &&
		apimeta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainDraining)
}
