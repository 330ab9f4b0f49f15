package reconcile

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// expected is how long a drain counts that was created, though the informer has not had it yet.
const expected = 30 * time.Second

// A DrainStore has the drains as a controller sees them that writes some itself: those of an informer, and
// its own writes until the informer has them.
type DrainStore struct {
	store cache.Store
	// seen is the resource version up to which the informer has everything.
	seen    func() string
	written map[string]writtenDrain
	// deleted has when drains were deleted that the informer may still have.
	deleted map[types.UID]writtenDrain
	// beginnings get the writes before the informer has them.
	beginnings Beginnings
}

// Beginnings remember the evictions that began, for the window of the guard.
type Beginnings interface {
	// Begun are those within a window.
	Begun(now time.Time, window time.Duration) guard.Begun
	// Stored takes over a drain as the API server answered, and Deleted one that the informer never has.
	Stored(drain any, now time.Time)
	Deleted(drain any)
}

// A writtenDrain is as the API server answered, at a time.
type writtenDrain struct {
	*v1alpha1.DeviceDrain
	at time.Time
}

// NewDrainStore returns the drains of an informer's store. seen is the resource version up to which the informer has
// everything: after an outage of the API server it can be behind for a minute.
func NewDrainStore(store cache.Store, seen func() string, beginnings Beginnings) *DrainStore {
	return &DrainStore{store: store, seen: seen, beginnings: beginnings, written: map[string]writtenDrain{}, deleted: map[types.UID]writtenDrain{}}
}

// Wrote notes the answer of the API server to a write.
func (s *DrainStore) Wrote(d *v1alpha1.DeviceDrain, now time.Time) {
	s.written[d.Name] = writtenDrain{d, now}
	s.beginnings.Stored(d, now)
}

// Deleted notes that a drain was deleted.
func (s *DrainStore) Deleted(d *v1alpha1.DeviceDrain, now time.Time) {
	s.deleted[d.UID] = writtenDrain{d, now}
	if s.written[d.Name].DeviceDrain != nil && s.written[d.Name].UID == d.UID {
		delete(s.written, d.Name)
	}
}

// All are all drains as they were read or written last, by name.
func (s *DrainStore) All(now time.Time) (all []*v1alpha1.DeviceDrain) {
	present := map[types.UID]bool{}
	for _, object := range s.store.List() {
		d, is := object.(*v1alpha1.DeviceDrain)
		if !is {
			continue
		}
		present[d.UID] = true
		made, known := s.written[d.Name]
		switch {
		case !known || !Newer(made.ResourceVersion, d.ResourceVersion):
			delete(s.written, d.Name)
		case made.UID == d.UID:
			d = made.DeviceDrain
		default: // ours took its place, and the informer does not have it yet
			continue
		}
		if _, deleted := s.deleted[d.UID]; !deleted {
			all = append(all, d)
		}
	}
	for name, made := range s.written {
		if present[made.UID] {
			continue
		}
		if now.Sub(made.at) > expected && !Newer(made.ResourceVersion, s.seen()) {
			delete(s.written, name)
			s.beginnings.Deleted(made.DeviceDrain)
			continue
		}
		all = append(all, made.DeviceDrain)
	}
	for uid, gone := range s.deleted {
		if !present[uid] && now.Sub(gone.at) > expected {
			delete(s.deleted, uid)
			s.beginnings.Deleted(gone.DeviceDrain) // the informer may never have had it
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.DeviceDrain) int { return strings.Compare(a.Name, b.Name) })
	return all
}
