package impact

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// beginnings remember the evictions of objects that this process sees stored, whichever process
// admitted them. The zero value is empty.
type beginnings struct {
	mutex sync.Mutex
	// all are by the name of the object.
	all map[string]*evictionRecord
	// waiting are the drains with windows that evict, or will, by name: each of their windows is a beginning. The rules
	// that wait for their timeAdded are here, too.
	waiting map[string]beginning
	// omitted is when the last eviction began for which there was no room.
	omitted time.Time
	// admitted is what was admitted and is not stored yet.
	admitted callers
	// seen are the objects as they are stored, by name; storing is held while one is taken over.
	storing sync.Mutex
	seen    map[string]metav1.Object
}

// A beginning is an eviction of one object from a time on.
type beginning struct {
	object string
	at     time.Time
	// spec is what the object selects and tolerates; equal specs affect the same.
	spec any
	// affects returns what it affects at present; pods that have left are not part of that.
	affects func() guard.Hit
	// perMinute bounds the pods that it evicts; 0 does not.
	perMinute int
	// windows are those in which it evicts, none for any time.
	windows []v1alpha1.Window
	// due is the timeAdded of a rule that waits for it; zero for others.
	due time.Time
	// drain is the object as it is stored, if it is a drain, and before how many pods it had evicted when it began.
	drain  *v1alpha1.DeviceDrain
	before int
	// generation is that of the object, and admitted what the guard counted when it admitted this, or what it affected
	// when it began to wait.
	generation int64
	admitted   guard.Hit
}

// An evictionRecord sums the evictions of one object. However often it begins, it is one entry: each pod and
// device has the time of the last beginning that affected it, so that it counts at least as long
// as if each beginning were counted by itself.
type evictionRecord struct {
	beginning
	affected affected
	// ended is true once the object evicts no more. left are the pods and devices that it affected then and had not evicted
	// from yet.
	ended bool
	left  guard.Hit
	// unseen is how many pods a drain had evicted, since it began at unseenAt, that this process did not see. fresh is true until
	// that is counted: a drain can be read before the pods.
	unseen   int
	unseenAt time.Time
	fresh    bool
	// mixed is true if it began with different specs. Then it is not known of a device that is
	// still held whether the eviction from it was stopped, and all of them count.
	mixed bool
}

// observe remembers an object that is stored. With the mutex held, it counts once, as stored or as admitted.
func (b *beginnings) observe(one beginning) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	one.admitted = b.admitted.stored(one)
	b.begin(one)
}

// begin adds a beginning, if there is room.
func (b *beginnings) begin(one beginning) {
	entry, present := b.all[one.object], one.affects()
	isNew := entry == nil
	if isNew {
		if entry = b.add(one.object, one.at); entry == nil {
			return
		}
	} else {
		if n := entry.missing(entry.affected.since(one.at, guard.MaxWindow), present); n > 0 { // they count from the beginning before this one
			entry.unseen, entry.unseenAt = max(n, entry.unseen), entry.at
		}
		entry.mixed = entry.mixed || !reflect.DeepEqual(entry.spec, one.spec)
		if entry.at.After(one.at) {
			one.at = entry.at
		}
		if entry.perMinute == 0 || one.perMinute != 0 && one.perMinute < entry.perMinute {
			one.perMinute = entry.perMinute // what it evicted faster has left at once
		}
	}
	entry.beginning, entry.ended = one, false
	b.note(entry, present)
	b.note(entry, one.admitted) // pods may have left since
	entry.admitted, entry.fresh = guard.Hit{}, entry.fresh || isNew
}

// add makes room for an entry, and notes if there is none.
func (b *beginnings) add(object string, at time.Time) *evictionRecord {
	if len(b.all) >= guard.MostStarts {
		maps.DeleteFunc(b.all, func(_ string, record *evictionRecord) bool { return at.Sub(record.at) >= guard.MaxWindow })
	}
	if len(b.all) >= guard.MostStarts {
		if at.After(b.omitted) {
			b.omitted = at
		}
		return nil
	}
	if b.all == nil {
		b.all = map[string]*evictionRecord{}
	}
	entry := &evictionRecord{affected: newAffected()}
	b.all[object] = entry
	return entry
}

// follow replaces what is known of an object: the status of a drain has its devices, and how many pods it has evicted.
// A rule that waits can be narrowed.
func (b *beginnings) follow(one beginning) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if record := b.all[one.object]; record != nil {
		record.affects, record.drain = one.affects, one.drain
	}
	if waits, is := b.waiting[one.object]; is {
		waits.affects = one.affects
		b.waiting[one.object] = waits
	}
}

// end notes that an object evicts no more.
func (b *beginnings) end(one beginning) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	record := b.all[one.object]
	if record == nil {
		return
	}
	if record.drain == nil || one.drain != nil && !reconcile.Newer(record.drain.ResourceVersion, one.drain.ResourceVersion) {
		record.drain = one.drain
	}
	if !record.ended {
		record.ended, record.left = true, record.affects()
	}
}

// starts returns the evictions that began, each with what it has affected so far, and the writes of a caller that are
// not stored yet: an eviction that goes on counts with the pods that left and those that will, one that ended with those
// that left. None counts with more pods than its rate allows within
// the window. omitted is when the last one began that is not among them. Pods that came to the devices of the object that
// is written now are not among those that it affected before: it may have been stopped meanwhile.
func (b *beginnings) starts(admitted *admissions, writes string, now time.Time, window time.Duration) (starts []guard.Start, omitted time.Time) {
	b.arrive(now)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	maps.DeleteFunc(b.all, func(_ string, record *evictionRecord) bool { return now.Sub(record.at) >= guard.MaxWindow })
	for _, record := range b.all {
		if now.Sub(record.at) >= window {
			continue // counting it is costly, and it is not part of the sum
		}
		starts = append(starts, guard.Start{Object: record.object, Time: begun(record.at, now), Hit: b.hit(record, record.object == writes, now, window)})
	}
	if admitted == nil {
		return starts, b.omitted
	}
	unstored, omitted := admitted.starts(writes, now, window)
	if omitted.Before(b.omitted) {
		omitted = b.omitted
	}
	return append(starts, unstored...), omitted
}

// begun is when an eviction began that is known to have begun: not after now, though the clock of another machine is ahead,
// or the write that is decided waited for others.
func begun(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

// note notes what an object affects, and that pods are left out for which there is no room.
func (b *beginnings) note(record *evictionRecord, hit guard.Hit) {
	more := 0
	for _, pod := range hit.Pods {
		if _, known := record.affected.pods[pod]; !known {
			more++
		}
	}
	if more > 0 {
		for _, one := range b.all {
			more += len(one.affected.pods)
		}
		if more > guard.MostPods {
			hit.Pods = nil
			if record.at.After(b.omitted) {
				b.omitted = record.at
			}
		}
	}
	record.affected.add(hit, record.at)
}

// hit is what an entry counts with; written says that its object is written now.
func (b *beginnings) hit(record *evictionRecord, written bool, now time.Time, window time.Duration) guard.Hit {
	present := record.affects()
	var hit guard.Hit
	if record.ended && !record.mixed {
		hit = record.affected.since(now, window).Without(present.Without(present.Without(record.left)))
	} else {
		if !written {
			b.note(record, present)
		}
		hit = record.affected.since(now, window).Without(guard.Hit{})
	}
	missing := record.missing(hit, present)
	if record.fresh {
		record.unseen, record.unseenAt, record.fresh = max(missing, record.unseen), record.at, false
	}
	if now.Sub(record.unseenAt) < window {
		missing = max(missing, record.unseen)
	}
	for n := range min(missing, mostUnseen) {
		hit.Pods = append(hit.Pods, guard.Pod{UID: types.UID(fmt.Sprintf("%s/%d", record.drain.UID, n))}) // its namespace is not known
	}
	return hit.Pace(record.perMinute, window)
}

// mostUnseen is how many pods count at most that this process has not seen: more than any threshold allows.
const mostUnseen = 10_000

// missing is how many pods a drain has evicted since it began that are not known: another process saw them, or none.
func (b *evictionRecord) missing(known, present guard.Hit) int {
	if b.drain == nil {
		return 0
	}
	count := evicted(b.drain) - b.before + b.leaving(present)
	if count <= 0 {
		return 0
	}
	return max(count-len(known.Without(present).Pods), 0)
}

// evicted is how many pods a drain has evicted.
func evicted(d *v1alpha1.DeviceDrain) int {
	return int(d.Status.Counts.Evicted) + int(d.Status.Counts.Deleted)
}

// leaving is how many pods a drain evicts, or has asked to leave, that hold none of its devices any more and are not in its counts: they
// terminate, or have gone since its status was written.
func (b *evictionRecord) leaving(present guard.Hit) (count int) {
	holds := map[types.UID]bool{}
	for _, pod := range present.Pods {
		holds[pod.UID] = true
	}
	for _, pod := range b.drain.Status.Evicting {
		if !holds[pod.UID] {
			count++
		}
	}
	for _, request := range b.drain.Status.Requested {
		if request.Fallback == "" && !holds[request.UID] {
			count++
		}
	}
	return count
}

// affected are the devices, claims and pods that an object affects, each with the time of the
// last beginning that affected it.
type affected struct {
	devices map[guard.Device]time.Time
	claims  map[types.NamespacedName]time.Time
	pods    map[guard.Pod]time.Time
}

func newAffected() affected {
	return affected{map[guard.Device]time.Time{}, map[types.NamespacedName]time.Time{}, map[guard.Pod]time.Time{}}
}

func (a affected) add(hit guard.Hit, at time.Time) {
	note(a.devices, hit.Devices, at)
	note(a.claims, hit.Claims, at)
	note(a.pods, hit.Pods, at)
}

// since returns what was affected within the window, and forgets what no window includes.
func (a affected) since(now time.Time, window time.Duration) guard.Hit {
	return guard.Hit{Devices: within(a.devices, now, window), Claims: within(a.claims, now, window), Pods: within(a.pods, now, window)}
}

// note gives names a time, unless they have a later one.
func note[K comparable](times map[K]time.Time, names []K, at time.Time) {
	for _, name := range names {
		if times[name].Before(at) {
			times[name] = at
		}
	}
}

// within returns the names whose time is within the window.
func within[K comparable](times map[K]time.Time, now time.Time, window time.Duration) (names []K) {
	for name, at := range times {
		if now.Sub(at) >= guard.MaxWindow {
			delete(times, name)
		}
		if now.Sub(at) < window {
			names = append(names, name)
		}
	}
	return names
}
