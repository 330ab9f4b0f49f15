package slicemerge

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// PoolOriginals remember what drivers published about the devices of each pool, beyond the end of
// a slice: if a user deletes a slice, its driver creates it again, with values that it had taken
// over from us. What they hold is learned from slices, and at first from the records that
// Recorder has written. A pool for which there is no room is not remembered. The zero value is ready
// for use, by several goroutines.
type PoolOriginals struct {
	mutex sync.Mutex
	pools map[Pool]record.Originals
	// gone is when the last slice of a pool disappeared.
	gone map[Pool]time.Time
	room poolRoom
	// changed are the pools of which something else is known than when they were asked for, nil
	// before that.
	changed map[Pool]bool
	// versions identify states of what is known of a pool; sets is the last of them.
	versions map[Pool]uint64
	sets     uint64
}

// A Pool is one of a driver. Node is that of its slices, empty for those that name none. A driver that
// has the right to write slices of its own node only can give them the name of any pool: what they
// say does not count for slices of other nodes. Upstream's policy does not let it write slices that
// name no node.
type Pool struct{ Driver, Name, Node string }

// PoolOf is that of a slice.
func PoolOf(slice *resourceapi.ResourceSlice) Pool {
	return Pool{slice.Spec.Driver, slice.Spec.Pool.Name, ptr.Deref(slice.Spec.NodeName, "")}
}

// How long a pool without slices is remembered, and how often these are looked for.
const (
	poolMemory = 24 * time.Hour
	sweepEvery = time.Minute
)

// Of returns what is known of a pool. It is never changed.
func (l *PoolOriginals) Of(pool Pool) record.Originals {
	if l == nil {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.pools[pool]
}

// Version is another one when something else is known of a pool.
func (l *PoolOriginals) Version(pool Pool) uint64 {
	if l == nil {
		return 0
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.versions[pool]
}

// Learn notes what a stored slice says of its devices, in its record. What was known of a device is
// kept as long as it explains a value that was published: the record says nothing of it, or was
// written by a webhook that knew less.
func (l *PoolOriginals) Learn(slice *resourceapi.ResourceSlice, now time.Time) {
	own, err := record.OriginalsOf(slice)
	if err != nil {
		return
	}
	// Reads the record again. Admission waits for the mutex, so this comes before it.
	published, _ := record.Published(slice, now)
	pool := PoolOf(slice)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	known := l.pools[pool]
	if len(own)+len(known) == 0 {
		return
	}
	next := maps.Clone(known)
	if next == nil {
		next = record.Originals{}
	}
	kept := known.Forgotten(published, now)
	for i := range slice.Spec.Devices {
		name := slice.Spec.Devices[i].Name
		said, has := own[name]
		switch {
		case kept[name]:
		case has:
			next[name] = said
		default:
			delete(next, name)
		}
	}
	l.set(pool, next)
}

// Seed adds what records say of devices of which nothing is known, and which have no value
// in a slice of now that the record does not explain.
func (l *PoolOriginals) Seed(records []record.Record, stored iter.Seq[*resourceapi.ResourceSlice], now time.Time) {
	said := map[Pool]record.Originals{}
	for _, r := range records {
		pool := Pool{r.Driver, r.Pool, r.Node}
		if said[pool] == nil {
			said[pool] = record.Originals{}
		}
		maps.Copy(said[pool], r.Originals)
	}
	for slice := range stored {
		originals := said[PoolOf(slice)]
		for i := range slice.Spec.Devices {
			if device := &slice.Spec.Devices[i]; !originals.Explains(device, now) {
				delete(originals, device.Name)
			}
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for pool, originals := range said {
		maps.Copy(originals, l.pools[pool])
		l.set(pool, originals)
	}
}

// set is called with the mutex held. It forgets a pool that grows beyond the room for it: half of what
// is known would be taken for all.
func (l *PoolOriginals) set(pool Pool, originals record.Originals) {
	if originals.Equal(l.pools[pool]) {
		return
	}
	if !l.room.resize(pool, poolBytes(pool, originals)) {
		originals = nil
		l.room.resize(pool, 0)
	}
	if l.changed != nil {
		l.changed[pool] = true
	}
	if len(originals) == 0 {
		delete(l.pools, pool)
		delete(l.gone, pool)
		delete(l.versions, pool)
		return
	}
	if l.pools == nil {
		l.pools, l.gone, l.versions = map[Pool]record.Originals{}, map[Pool]time.Time{}, map[Pool]uint64{}
	}
	l.sets++
	l.pools[pool], l.versions[pool] = originals, l.sets
}

// sweep forgets the pools that have had no slice for long, and the devices that their driver has
// dropped.
func (l *PoolOriginals) sweep(stored iter.Seq[*resourceapi.ResourceSlice], now time.Time) {
	live := map[Pool]*newest{}
	for slice := range stored {
		pool := PoolOf(slice)
		if live[pool] == nil {
			live[pool] = &newest{}
		}
		live[pool].add(slice)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for pool, known := range l.pools {
		since, gone := l.gone[pool]
		switch {
		case live[pool] != nil:
			delete(l.gone, pool)
			l.set(pool, live[pool].without(known))
		case !gone:
			l.gone[pool] = now
		case now.Sub(since) >= poolMemory:
			l.set(pool, nil)
		}
	}
}

// newest are the slices of the newest generation of a pool.
type newest struct {
	slices []*resourceapi.ResourceSlice
}

func (n *newest) add(slice *resourceapi.ResourceSlice) {
	if len(n.slices) > 0 {
		switch generation := n.slices[0].Spec.Pool.Generation; {
		case slice.Spec.Pool.Generation < generation:
			return
		case slice.Spec.Pool.Generation > generation:
			n.slices = nil
		}
	}
	n.slices = append(n.slices, slice)
}

// without returns what is known of the devices that the pool has. While it lacks a slice, which its
// driver may create again, that is all.
func (n *newest) without(known record.Originals) record.Originals {
	if int64(len(n.slices)) < n.slices[0].Spec.Pool.ResourceSliceCount {
		return known
	}
	kept := record.Originals{}
	for _, slice := range n.slices {
		for i := range slice.Spec.Devices {
			name := slice.Spec.Devices[i].Name
			if said, has := known[name]; has {
				kept[name] = said
			}
		}
	}
	return kept
}

// Take returns the pools that have changed since it was called last, none at first, and all that is
// known.
func (l *PoolOriginals) Take() (changed map[Pool]bool, all map[Pool]record.Originals) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	changed, l.changed = l.changed, map[Pool]bool{}
	return changed, maps.Clone(l.pools)
}

// Handler receives the events of the slices of a view. Their slices may contain patches and
// rules; the stored slice counts.
func (l *PoolOriginals) Handler(view View, now func() time.Time) cache.ResourceEventHandler {
	learn := func(object any) {
		if changed, is := object.(*resourceapi.ResourceSlice); is {
			if slice := view.Snapshot().Stored(changed.Name); slice != nil {
				l.Learn(slice, now())
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: learn, UpdateFunc: func(_, object any) { learn(object) }}
}

// Run forgets the pools that have had no slice for a day, until ctx ends.
func (l *PoolOriginals) Run(ctx context.Context, view View) {
	select {
	case <-ctx.Done():
		return
	case <-view.HasSyncedChecker().Done():
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		l.sweep(view.Snapshot().StoredSlices(), time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// A View is what a [tracker.Tracker] shows.
type View interface {
	Snapshot() *tracker.Snapshot
	HasSyncedChecker() cache.DoneChecker
}
