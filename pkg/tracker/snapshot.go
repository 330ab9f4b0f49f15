package tracker

import (
	"iter"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A Snapshot is the view at one time. It never changes, and neither may what it
// returns be changed. The zero value is the view of a cluster without devices.
type Snapshot struct {
	revision uint64
	devices  int
	slices   ordered[*entry]
	pools    ordered[*pool]
	rules    ordered[object[*resourceapi.DeviceTaintRule]]
	patches  ordered[compiledPatch]
	classes  ordered[object[*resourceapi.DeviceClass]]
}

// object is an API object in an ordered list.
type object[T metav1.Object] struct{ value T }

func (o object[T]) key() string { return o.value.GetName() }

func editOf[V any, T interface {
	*V
	metav1.Object
}](name string, value T) edit[object[T]] {
	return edit[object[T]]{key: name, item: object[T]{value}, remove: value == nil}
}

func values[T metav1.Object](list ordered[object[T]]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for o := range list.all() {
			if !yield(o.value) {
				return
			}
		}
	}
}

// Revision grows with each snapshot that a tracker publishes; it is 0 before the first.
func (s *Snapshot) Revision() uint64 { return s.revision }

// List returns the merged slices whose labels match, in the order of their names.
func (s *Snapshot) List(selector labels.Selector) []*resourceapi.ResourceSlice {
	all := selector == nil || selector.Empty()
	list := make([]*resourceapi.ResourceSlice, 0, s.slices.length)
	for e := range s.slices.all() {
		if all || selector.Matches(labels.Set(e.merged.Labels)) {
			list = append(list, e.merged)
		}
	}
	return list
}

// Get returns a merged slice, nil if there is none of that name.
func (s *Snapshot) Get(name string) *resourceapi.ResourceSlice {
	if e, found := s.slices.get(name); found {
		return e.merged
	}
	return nil
}

// Published returns a slice as its driver published it, nil if there is none of that
// name.
func (s *Snapshot) Published(name string) *resourceapi.ResourceSlice {
	if e, found := s.slices.get(name); found {
		return e.published
	}
	return nil
}

// Stored returns a slice as the API server has it, nil if there is none of that name. It
// differs from Published where patches are written into slices ([materialize]).
func (s *Snapshot) Stored(name string) *resourceapi.ResourceSlice {
	if e, found := s.slices.get(name); found {
		return e.stored
	}
	return nil
}

// StoredSlices yields all slices as the API server has them, pool by pool.
func (s *Snapshot) StoredSlices() iter.Seq[*resourceapi.ResourceSlice] {
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		for p := range s.pools.all() {
			if !p.each(func(e *entry) bool { return yield(e.stored) }) {
				return
			}
		}
	}
}

// Patched returns what ResourceSlicePatches do to a slice, nil if no device matches.
func (s *Snapshot) Patched(name string) *patch.Result {
	if e, found := s.slices.get(name); found {
		return e.patched
	}
	return nil
}

// ByPool returns the merged slices of a driver's pool, of all its generations, in the
// order of their names.
func (s *Snapshot) ByPool(driver, name string) (all []*resourceapi.ResourceSlice) {
	s.pool(driver, name).each(func(e *entry) bool {
		all = append(all, e.merged)
		return true
	})
	return all
}

// PublishedByPool is ByPool for the slices as their driver published them.
func (s *Snapshot) PublishedByPool(driver, name string) (all []*resourceapi.ResourceSlice) {
	s.pool(driver, name).each(func(e *entry) bool {
		all = append(all, e.published)
		return true
	})
	return all
}

// PublishedSlices yields all slices as their drivers published them, pool by pool; the
// pools of a driver follow each other.
func (s *Snapshot) PublishedSlices() iter.Seq[*resourceapi.ResourceSlice] {
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		for p := range s.pools.all() {
			if !p.each(func(e *entry) bool { return yield(e.published) }) {
				return
			}
		}
	}
}

// Device returns a device. Where several slices of a pool have it, it is the one of the
// highest generation of the pool.
func (s *Snapshot) Device(driver, pool, device string) (Device, bool) {
	found, ok := s.pool(driver, pool).find(device)
	return Device(found), ok
}

// Devices yields all devices, in the order of the names of their slices and then in
// that of the slice. A device of a pool that is being replaced appears once for each
// generation.
func (s *Snapshot) Devices() iter.Seq[Device] {
	return func(yield func(Device) bool) {
		for e := range s.slices.all() {
			for i := range e.published.Spec.Devices {
				if !yield(Device{e, i}) {
					return
				}
			}
		}
	}
}

// SliceDevices yields the devices of one slice.
func (s *Snapshot) SliceDevices(name string) iter.Seq[Device] {
	return func(yield func(Device) bool) {
		e, found := s.slices.get(name)
		for i := 0; found && i < len(e.published.Spec.Devices) && yield(Device{e, i}); i++ {
		}
	}
}

// Rules yields the DeviceTaintRules, in the order of their names.
func (s *Snapshot) Rules() iter.Seq[*resourceapi.DeviceTaintRule] { return values(s.rules) }

// Rule returns a DeviceTaintRule, nil if there is none of that name.
func (s *Snapshot) Rule(name string) *resourceapi.DeviceTaintRule {
	found, _ := s.rules.get(name)
	return found.value
}

// Patches yields the ResourceSlicePatches, in the order of their names.
func (s *Snapshot) Patches() iter.Seq[*v1alpha1.ResourceSlicePatch] {
	return func(yield func(*v1alpha1.ResourceSlicePatch) bool) {
		for p := range s.patches.all() {
			if !yield(p.object) {
				return
			}
		}
	}
}

// Patch returns a ResourceSlicePatch, nil if there is none of that name.
func (s *Snapshot) Patch(name string) *v1alpha1.ResourceSlicePatch {
	found, _ := s.patches.get(name)
	return found.object
}

// Classes yields the DeviceClasses, in the order of their names.
func (s *Snapshot) Classes() iter.Seq[*resourceapi.DeviceClass] { return values(s.classes) }

// Class returns a DeviceClass, nil if there is none of that name.
func (s *Snapshot) Class(name string) *resourceapi.DeviceClass {
	found, _ := s.classes.get(name)
	return found.value
}

func (s *Snapshot) pool(driver, name string) *pool {
	p, _ := s.pools.get(poolKey(driver, name))
	return p
}

// ofDriver yields the pools of a driver.
func (s *Snapshot) ofDriver(driver string) iter.Seq[*pool] {
	return func(yield func(*pool) bool) {
		prefix := poolKey(driver, "")
		for p := range s.pools.from(prefix) {
			if !strings.HasPrefix(p.name, prefix) || !yield(p) {
				return
			}
		}
	}
}
