package tracker

import (
	"cmp"
	"iter"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// An entry is one slice: as published, and merged. It is immutable.
type entry struct {
	// stored is the slice of the API server, published the one with the driver's values:
	// they differ where patches are written into slices.
	stored, published *resourceapi.ResourceSlice
	// patchedSlice has the values of patches, merged the taints of rules as well. They are
	// published itself where nothing changes it.
	patchedSlice, merged *resourceapi.ResourceSlice
	// unfinished is true until the patches are evaluated: patchedSlice is the last result.
	unfinished bool
	// patched is what ResourceSlicePatches do to it; nil if they match no device.
	patched *patch.Result
	// tainted are the devices with taints of rules, in the order of the slice.
	tainted []tainted
	// rules has the rule of each such taint: the last ones of each device. Devices that
	// have no others share theirs.
	rules []*rule
}

// tainted is a device that the rules[from:to] of the entry taint.
type tainted struct{ device, from, to int32 }

func (e *entry) key() string { return e.published.Name }

func (e *entry) pool() poolID {
	return poolID{e.published.Spec.Driver, e.published.Spec.Pool.Name}
}

// rulesOf returns the rules that taint a device.
func (e *entry) rulesOf(device int) []*rule {
	at, found := slices.BinarySearchFunc(e.tainted, int32(device), func(t tainted, device int32) int { return int(t.device - device) })
	if !found {
		return nil
	}
	return e.rules[e.tainted[at].from:e.tainted[at].to]
}

// publishedSlice returns a stored slice with the driver's values. A slice whose record
// cannot be read is returned as it is.
func publishedSlice(old *entry, stored *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	if old != nil && old.stored == stored {
		return old.published
	}
	published, _ := record.Published(stored, time.Now())
	return published
}

// newEntry merges a slice with what patches do to it, which may be nil, and the rules
// that match it. For a rule it copies the slice without
// what it refers to, the array of its devices, and the taints of devices that have new
// ones; everything else is shared.
func newEntry(published *resourceapi.ResourceSlice, patched *patch.Result, hits *hits) *entry {
	e := &entry{stored: published, published: published, patchedSlice: published, patched: patched}
	if patched != nil {
		e.patchedSlice = patched.Slice
	}
	return e.taint(hits)
}

// newUnfinished is newEntry before the patches are evaluated.
func newUnfinished(last, published *resourceapi.ResourceSlice, hits *hits) *entry {
	e := &entry{stored: published, published: published, patchedSlice: last, unfinished: true}
	return e.taint(hits)
}

// taint adds the taints of rules.
func (e *entry) taint(hits *hits) *entry {
	slice := e.patchedSlice
	e.merged = slice
	if len(hits.all) == 0 && len(hits.pinned) == 0 {
		return e
	}
	nTainted, nRules, nTaints := count(slice, hits)
	if nTainted == 0 { // there is no device
		return e
	}
	devices := slices.Clone(slice.Spec.Devices)
	e.tainted = make([]tainted, 0, nTainted)
	e.rules = make([]*rule, 0, nRules)
	taints := make([]resourceapi.DeviceTaint, 0, nTaints)
	left := hits.pinned
	var alike *tainted // that of the devices without a taint or a rule of their own
	for i := range devices {
		var its []pinned
		if its, left = pinnedTo(i, left); len(hits.all)+len(its) == 0 {
			continue
		}
		shares := len(its)+len(devices[i].Taints) == 0
		if shares && alike != nil {
			devices[i].Taints = devices[alike.device].Taints
			e.tainted = append(e.tainted, tainted{int32(i), alike.from, alike.to})
			continue
		}
		from, fromTaint := len(e.rules), len(taints)
		e.rules = appendSorted(e.rules, hits.all, its)
		taints = append(taints, devices[i].Taints...)
		for _, r := range e.rules[from:] {
			taints = append(taints, r.taint)
		}
		devices[i].Taints = taints[fromTaint:len(taints):len(taints)]
		e.tainted = append(e.tainted, tainted{int32(i), int32(from), int32(len(e.rules))})
		if shares {
			alike = &e.tainted[len(e.tainted)-1]
		}
	}
	e.merged = withDevices(slice, devices)
	return e
}

// count returns how many devices are tainted, by how many rules in sum, and how many
// taints these devices have then. Of devices that share their taints one counts.
func count(slice *resourceapi.ResourceSlice, hits *hits) (devices, rules, taints int) {
	left, shared := hits.pinned, false
	for i := range slice.Spec.Devices {
		var its []pinned
		its, left = pinnedTo(i, left)
		n, own := len(hits.all)+len(its), len(slice.Spec.Devices[i].Taints)
		if n == 0 {
			continue
		}
		devices++
		if shares := len(its)+own == 0; !shares || !shared {
			rules, taints = rules+n, taints+n+own
			shared = shared || shares
		}
	}
	return devices, rules, taints
}

// appendSorted appends both lists, each in the order of names, in that order.
func appendSorted(result, all []*rule, its []pinned) []*rule {
	for _, r := range all {
		for len(its) > 0 && compareRules(its[0].rule, r) < 0 {
			result, its = append(result, its[0].rule), its[1:]
		}
		result = append(result, r)
	}
	for _, p := range its {
		result = append(result, p.rule)
	}
	return result
}

// withDevices returns the slice with other devices; everything else is shared.
func withDevices(slice *resourceapi.ResourceSlice, devices []resourceapi.Device) *resourceapi.ResourceSlice {
	changed := *slice
	changed.Spec.Devices = devices
	return &changed
}

// sameInputs reports whether the entry was made of the same slice and rules.
func (e *entry) sameInputs(other *entry) bool {
	return e.stored == other.stored && e.published == other.published && e.patched == other.patched && e.patchedSlice == other.patchedSlice && e.unfinished == other.unfinished &&
		slices.Equal(e.tainted, other.tainted) && slices.Equal(e.rules, other.rules)
}

// sameVersion reports whether two objects are the same version of one, as after a
// resync or when everything has been listed again.
func sameVersion(a, b *resourceapi.ResourceSlice) bool {
	return a == b || a.ResourceVersion != "" && a.ResourceVersion == b.ResourceVersion && a.UID == b.UID
}

// sameView reports whether a reader of the merged slices sees no difference.
func (e *entry) sameView(other *entry) bool {
	if !sameVersion(e.published, other.published) {
		return false
	}
	if e.patchedSlice != other.patchedSlice && !sameDevices(e.merged, other.merged) {
		return false
	}
	for i := range e.merged.Spec.Devices {
		a, b := e.merged.Spec.Devices[i].Taints, other.merged.Spec.Devices[i].Taints
		if !slices.EqualFunc(a, b, func(a, b resourceapi.DeviceTaint) bool { return sameTaint(&a, &b) }) {
			return false
		}
	}
	return true
}

// A Device is one device of a [Snapshot], with the source of each of its taints. The zero
// value is no device and cannot be used.
type Device place

// Driver returns the name of the driver.
func (d Device) Driver() string { return d.entry.published.Spec.Driver }

// Pool returns the name of the pool.
func (d Device) Pool() string { return d.entry.published.Spec.Pool.Name }

// Name returns the name of the device, which is unique in a generation of the pool.
func (d Device) Name() string { return d.Published().Name }

// Slice returns the merged slice that it is in.
func (d Device) Slice() *resourceapi.ResourceSlice { return d.entry.merged }

// Published returns the device as its driver published it.
func (d Device) Published() *resourceapi.Device {
	return &d.entry.published.Spec.Devices[d.device]
}

// Merged returns the device with the values of patches and the taints of rules.
func (d Device) Merged() *resourceapi.Device {
	return &d.entry.merged.Spec.Devices[d.device]
}

// A Taint is a taint of a device, and where it comes from.
type Taint struct {
	resourceapi.DeviceTaint `json:",inline"`
	Source                  Source `json:"source"`
}

// Taints returns the taints in their order: those of the driver, then those of rules in
// the order of the rules' names.
func (d Device) Taints() []Taint {
	all := d.Merged().Taints
	if len(all) == 0 {
		return nil
	}
	rules := d.entry.rulesOf(d.device)
	taints := make([]Taint, len(all))
	ofDriver := len(all) - len(rules)
	for i, taint := range all {
		source := Source{Kind: DriverSource, Name: d.Driver()}
		if i >= ofDriver {
			source = rules[i-ofDriver].source
		}
		taints[i] = Taint{taint, source}
	}
	return taints
}

// Patched yields what ResourceSlicePatches did to the attributes and capacities of the
// device: what each became, which patch decided, and which others wanted something.
func (d Device) Patched() iter.Seq[patch.Key] {
	if d.entry.patched == nil {
		return func(func(patch.Key) bool) {}
	}
	return d.entry.patched.Device(d.device)
}

// The kinds of sources of a taint or a value of a device.
const (
	// DriverSource is the driver that publishes the device.
	DriverSource = "driver"
	// RuleSource is a DeviceTaintRule.
	RuleSource = "rule"
	// PatchSource is a ResourceSlicePatch.
	PatchSource = "patch"
)

// A Source is the origin of a taint or a value of a device.
type Source struct {
	Kind string `json:"kind"`
	// Name is the name of the driver, of the DeviceTaintRule or of the
	// ResourceSlicePatch.
	Name string `json:"name"`
	// UID is that of the rule or patch, empty for a driver.
	UID types.UID `json:"uid,omitempty"`
}

// String returns "rule/NAME".
func (s Source) String() string { return s.Kind + "/" + s.Name }

func compareRules(a, b *rule) int { return cmp.Compare(a.source.Name, b.source.Name) }
