package tracker

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A rule is what matters of a DeviceTaintRule. It stays the same object while
// selector, taint and UID stay the same, so that a write of the status is no change.
type rule struct {
	source Source
	// selector is nil for a rule that selects nothing.
	selector *resourceapi.DeviceTaintSelector
	taint    resourceapi.DeviceTaint
}

func newRule(object *resourceapi.DeviceTaintRule) *rule {
	return &rule{
		source:   Source{Kind: RuleSource, Name: object.Name, UID: object.UID},
		selector: object.Spec.DeviceSelector,
		taint:    object.Spec.Taint,
	}
}

// same reports whether two versions of a rule have the same effect.
func (r *rule) same(other *rule) bool {
	return r.source == other.source && equality.Semantic.DeepEqual(r.selector, other.selector) && sameTaint(&r.taint, &other.taint)
}

func sameTaint(a, b *resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// rules are all rules, each in the bucket of what it pins, so that a slice meets those
// only that may match it.
type rules struct {
	exact    map[poolID]*bucket // driver and pool
	ofDriver map[string]*bucket
	ofPool   map[string]*bucket // the name of a pool, of whatever driver
	ofAny    bucket
}

// poolID names a pool.
type poolID struct{ driver, name string }

// bucket holds the rules for all devices and those for the devices of one name.
type bucket struct {
	all      []*rule
	byDevice map[string][]*rule
}

func (b *bucket) add(r *rule) {
	if r.selector.Device == nil {
		b.all = append(b.all, r)
		return
	}
	if b.byDevice == nil {
		b.byDevice = map[string][]*rule{}
	}
	b.byDevice[*r.selector.Device] = append(b.byDevice[*r.selector.Device], r)
}

func (b *bucket) remove(r *rule) {
	is := func(other *rule) bool { return other == r }
	if r.selector.Device == nil {
		b.all = slices.DeleteFunc(b.all, is)
		return
	}
	if left := slices.DeleteFunc(b.byDevice[*r.selector.Device], is); len(left) > 0 {
		b.byDevice[*r.selector.Device] = left
	} else {
		delete(b.byDevice, *r.selector.Device)
	}
}

func (b *bucket) empty() bool { return len(b.all) == 0 && len(b.byDevice) == 0 }

// add puts a rule into its bucket; one that selects nothing has none.
func (rs *rules) add(r *rule) {
	switch s := r.selector; {
	case s == nil:
	case s.Driver != nil && s.Pool != nil:
		addTo(&rs.exact, poolID{*s.Driver, *s.Pool}, r)
	case s.Driver != nil:
		addTo(&rs.ofDriver, *s.Driver, r)
	case s.Pool != nil:
		addTo(&rs.ofPool, *s.Pool, r)
	default:
		rs.ofAny.add(r)
	}
}

// remove takes a rule out of its bucket.
func (rs *rules) remove(r *rule) {
	switch s := r.selector; {
	case s == nil:
	case s.Driver != nil && s.Pool != nil:
		removeFrom(rs.exact, poolID{*s.Driver, *s.Pool}, r)
	case s.Driver != nil:
		removeFrom(rs.ofDriver, *s.Driver, r)
	case s.Pool != nil:
		removeFrom(rs.ofPool, *s.Pool, r)
	default:
		rs.ofAny.remove(r)
	}
}

func addTo[K comparable](buckets *map[K]*bucket, key K, r *rule) {
	if *buckets == nil {
		*buckets = map[K]*bucket{}
	}
	if (*buckets)[key] == nil {
		(*buckets)[key] = &bucket{}
	}
	(*buckets)[key].add(r)
}

func removeFrom[K comparable](buckets map[K]*bucket, key K, r *rule) {
	b := buckets[key]
	if b == nil {
		return
	}
	b.remove(r)
	if b.empty() {
		delete(buckets, key)
	}
}

// hits are the rules that match devices of one slice, in the order of their names.
type hits struct {
	all    []*rule
	pinned []pinned // by device, then by name
}

// pinned is a rule that names the device.
type pinned struct {
	device int // index in the slice
	rule   *rule
}

// match collects what matches a slice.
func (rs *rules) match(slice *resourceapi.ResourceSlice, into *hits) {
	into.all, into.pinned = into.all[:0], into.pinned[:0]
	driver, pool := slice.Spec.Driver, slice.Spec.Pool.Name
	for _, b := range [...]*bucket{rs.exact[poolID{driver, pool}], rs.ofDriver[driver], rs.ofPool[pool], &rs.ofAny} {
		if b == nil {
			continue
		}
		into.all = append(into.all, b.all...)
		if len(b.byDevice) == 0 {
			continue
		}
		for i := range slice.Spec.Devices {
			for _, r := range b.byDevice[slice.Spec.Devices[i].Name] {
				into.pinned = append(into.pinned, pinned{i, r})
			}
		}
	}
	slices.SortFunc(into.all, compareRules)
	slices.SortFunc(into.pinned, func(a, b pinned) int {
		if a.device != b.device {
			return a.device - b.device
		}
		return compareRules(a.rule, b.rule)
	})
}

// pinnedTo splits the pinned hits, which are sorted, at the end of those of a device.
func pinnedTo(device int, hits []pinned) (its, others []pinned) {
	n := 0
	for n < len(hits) && hits[n].device == device {
		n++
	}
	return hits[:n], hits[n:]
}
