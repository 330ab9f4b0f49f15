package materializer

import (
	"maps"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/materialize"
)

// Ledgers remember what drivers said of the devices of each pool, beyond the end of a
// slice: a driver makes one anew that somebody has deleted, of values that it had taken
// over from us. The zero value is ready for use, by several goroutines.
type Ledgers struct {
	mutex sync.Mutex
	pools map[Pool]materialize.Ledger
}

// A Pool is one of a driver.
type Pool struct{ Driver, Name string }

// PoolOf is that of a slice.
func PoolOf(slice *resourceapi.ResourceSlice) Pool {
	return Pool{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// Of returns what is known of a pool. It must not be changed.
func (l *Ledgers) Of(pool Pool) materialize.Ledger {
	if l == nil {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.pools[pool]
}

// Learn notes what a slice says of its devices, in its ledger. Of a device that it says
// nothing of, what was known is kept as long as it explains a value.
func (l *Ledgers) Learn(slice *resourceapi.ResourceSlice, now time.Time) {
	own, err := materialize.LedgerOf(slice)
	pool := PoolOf(slice)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	known := l.pools[pool]
	if err != nil || len(own)+len(known) == 0 {
		return
	}
	next := maps.Clone(known)
	if next == nil {
		next = materialize.Ledger{}
	}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if entries := own[device.Name]; entries != nil {
			next[device.Name] = entries
		} else if !known.Explains(device, now) {
			delete(next, device.Name)
		}
	}
	if l.pools == nil {
		l.pools = map[Pool]materialize.Ledger{}
	}
	if l.pools[pool] = next; len(next) == 0 {
		delete(l.pools, pool)
	}
}

// Handler learns of slices, as an informer or a tracker tells of them.
func (l *Ledgers) Handler(now func() time.Time) cache.ResourceEventHandler {
	learn := func(object any) {
		if slice, is := object.(*resourceapi.ResourceSlice); is {
			l.Learn(slice, now())
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: learn, UpdateFunc: func(_, object any) { learn(object) }}
}
