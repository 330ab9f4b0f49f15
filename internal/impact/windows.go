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

// exceeds returns the first sum that is too large of a write with the evictions that begin when it does; nil if none is.
// A drain begins when it is written, and whenever one of its windows opens.
func (i *Estimator) exceeds(write guard.Write, hit guard.Hit, admitted *admissions) *guard.Sum {
	window := write.Window
	starts, omitted := i.beginnings.starts(admitted, write.Now, window.Length)
	waiting := i.beginnings.waits(write.Now, window.Length)
	for _, at := range begins(write.Object, write.Now) {
		all := slices.Clone(starts)
		if at.After(write.Now) { // it counts then, though it counts now, too
			all = slices.DeleteFunc(all, func(s guard.Start) bool { return s.Object == nameOf(write.Object) })
		}
		window.Omitted = omitted
		for _, drain := range waiting {
			opens, near := drain.near(at, window.Length)
			k := slices.IndexFunc(all, func(s guard.Start) bool { return s.Object == drain.object })
			switch {
			case !near:
			case k >= 0: // it was written within the window
				if opens.After(all[k].Time) {
					all[k].Time = opens
				}
			case len(all) >= guard.MostStarts:
				window.Omitted = write.Now
			default:
				all = append(all, guard.Start{Object: drain.object, Time: opens, Hit: drain.hit()})
			}
		}
		if sum, exceeds := window.Exceeds(write.Now, hit, write.Acknowledged, all); exceeds {
			return &sum
		}
	}
	return nil
}

// begins are when what is written begins to evict within a week.
func begins(object any, now time.Time) []time.Time {
	drain, is := object.(*v1alpha1.DeviceDrain)
	if !is {
		return []time.Time{now}
	}
	openings := windows.Openings(drain.Spec.Windows, now)
	if state, err := windows.At(drain.Spec.Windows, now); err == nil && !state.Open && len(openings) > 0 {
		return openings
	}
	return slices.Insert(openings, 0, now)
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
	return old != nil && len(d.Spec.Windows) > 0 && guard.WidensDrain(nil, d) && !apimeta.IsStatusConditionTrue(old.Status.Conditions, v1alpha1.DrainDraining) &&
		apimeta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainDraining)
}
