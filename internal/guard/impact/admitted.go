package impact

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
)

// storedWithin is how long a write that was admitted may take until it is stored, and until
// this process sees it.
const storedWithin = time.Minute

// What is remembered at most of writes that are not stored: a caller that is not known to be an API server
// can be any pod, and ask for writes that it never stores.
const (
	// mostAdmitted is in bytes, and of one caller. A name counts with about what it has in memory.
	mostAdmitted = 8 << 20
	bytesOfName  = 64
)

// callers are the writes of each caller that were admitted. What one of them asks for does not count against another. The
// zero value is empty.
type callers struct {
	mutex sync.Mutex
	all   caller.Recent[admissions]
}

// An unstored write is one that was admitted and is not seen stored.
type unstored struct {
	beginning
	// bytes is what it has in memory.
	bytes int
	// followed says that this process sees the object once it is stored. affected is what the write affected.
	followed bool
	affected affected
}

// admissions are the writes of one caller that were admitted and are not seen stored.
type admissions struct {
	// deciding is held while a write is counted, decided and remembered, so that none is admitted by a
	// sum without the others.
	deciding sync.Mutex

	mutex sync.Mutex
	all   []unstored
	// omitted is when the last write was admitted for which there was no room.
	omitted time.Time
}

// of returns the admissions of a caller.
func (c *callers) of(address string, now time.Time) *admissions {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.all.Of(address, now)
}

// stored forgets an admission whose object is stored: it counts with what is stored. It returns what it affected.
func (c *callers) stored(b beginning) (hit guard.Hit) {
	c.mutex.Lock()
	all := slices.Collect(c.all.All())
	c.mutex.Unlock()
	affected := newAffected()
	for _, a := range all {
		a.stored(b, affected)
	}
	return affected.since(b.at, guard.MaxWindow)
}

// add remembers a write of so many bytes that is about to be stored.
func (a *admissions) add(b beginning, bytes int, followed bool) {
	added := unstored{beginning: b, bytes: bytes, followed: followed, affected: newAffected()}
	added.affected.add(b.admitted, b.at)
	added.admitted = guard.Hit{}
	added.bytes += bytesOfName * (len(added.affected.devices) + len(added.affected.claims) + len(added.affected.pods))
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.prune(b.at)
	sum := added.bytes
	for _, other := range a.all {
		sum += other.bytes
	}
	if len(a.all) >= guard.MostStarts || sum > mostAdmitted {
		a.omitted = b.at
		return
	}
	a.all = append(a.all, added)
}

// prune forgets what is not stored in time, and what no window includes.
func (a *admissions) prune(now time.Time) {
	a.all = slices.DeleteFunc(a.all, func(b unstored) bool {
		age := now.Sub(b.at)
		return age >= guard.MaxWindow || b.followed && age > storedWithin
	})
}

// stored forgets the admissions of an object: those with the same spec up to its generation, of which an API server that
// writes again asks for several, or else the oldest, which another webhook has changed. What they affected is added.
func (a *admissions) stored(b beginning, to affected) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	count := len(a.all)
	a.all = slices.DeleteFunc(a.all, func(other unstored) bool {
		is := other.object == b.object && other.generation <= b.generation && reflect.DeepEqual(other.spec, b.spec)
		if is {
			to.add(other.affected.since(b.at, guard.MaxWindow), b.at)
		}
		return is
	})
	if len(a.all) < count {
		return
	}
	if i := slices.IndexFunc(a.all, func(other unstored) bool { return other.object == b.object && other.generation <= b.generation }); i >= 0 {
		to.add(a.all[i].affected.since(b.at, guard.MaxWindow), b.at)
		a.all = slices.Delete(a.all, i, i+1)
	}
}

// starts returns what counts with a write of the caller: what a write affects at present and what has left, and after the time
// until it is stored, what has left. Pods that came to the devices of the object that is written now do not count: it may have
// been stopped meanwhile. Only the goroutine that decides calls it.
func (a *admissions) starts(writes string, now time.Time, window time.Duration) (starts []guard.Start, omitted time.Time) {
	for _, b := range a.unstored(now) {
		if now.Sub(b.at) >= window || b.due.After(now) {
			continue
		}
		hit := b.affects()
		switch {
		case b.followed || now.Sub(b.at) <= storedWithin: // pods may leave before it is seen stored
			if b.object != writes {
				b.affected.add(hit, b.at)
			}
			hit = b.affected.since(now, window).Without(guard.Hit{})
		default:
			hit = b.affected.since(now, window).Without(hit)
		}
		starts = append(starts, guard.Start{Object: b.object, Time: begun(b.at, now), Hit: hit.Pace(b.perMinute, window)})
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return starts, a.omitted
}

// unstored returns the writes that are not stored.
func (a *admissions) unstored(now time.Time) []unstored {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.prune(now)
	return slices.Clone(a.all)
}
