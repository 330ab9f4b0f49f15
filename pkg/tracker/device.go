package tracker

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A Device is one device of a [Snapshot], with where each of its taints comes from.
// The zero value is none; it must not be used.
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
