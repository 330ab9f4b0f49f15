package drain

import (
	"fmt"
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/internal/targets"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Devices are what a drain is about, or why that is not known.
type Devices struct {
	// Names are in their order, each once.
	Names []v1alpha1.DeviceName
	// Reason and Message are why there are none: a reason of the condition Blocked.
	Reason, Message string
}

// A Find returns what the selector of a drain finds.
type Find func(*v1alpha1.DrainSelector) targets.Found

// Published finds devices in a view, and those that claims hold, within the cost that a selector may have.
func Published(view *tracker.Snapshot, holders targets.Holders) Find {
	return func(selector *v1alpha1.DrainSelector) targets.Found {
		return targets.Select(new(patch.Compiler).Within(patch.SelectionCost), selector, view.PublishedSlices(), holders)
	}
}

// Selects reports whether a drain has a selector that is not resolved yet.
func Selects(d *v1alpha1.DeviceDrain) bool {
	return d.Spec.Selector != nil && len(d.Status.Devices) == 0
}

// Resolve returns the devices of a drain: those in its status, once it has begun, those
// that it names, or those that its selector finds now, which is asked only then. Where it takes
// partitions along, these are found in the published slices.
func Resolve(d *v1alpha1.DeviceDrain, find Find, published iter.Seq[*resourceapi.ResourceSlice]) Devices {
	if len(d.Status.Devices) > 0 {
		return stored(d)
	}
	found := directly(d, find)
	if !d.Spec.WithPartitions || found.Names == nil || published == nil {
		return found
	}
	for _, id := range siblings.Of(published, ids(found.Names)) {
		found.Names = append(found.Names, v1alpha1.DeviceName(id))
	}
	if n := len(found.Names); n > v1alpha1.DrainDevicesMax {
		return Devices{Reason: v1alpha1.BlockedTooManyDevices, Message: fmt.Sprintf(
			"with partitions there are %s, and a drain has at most %d: split the drain", plural.Of(n, "device"), v1alpha1.DrainDevicesMax)}
	}
	slices.SortFunc(found.Names, compareNames)
	return found
}

// stored are the devices in the status of a drain, as far as its spec confirms them: who may
// write the status does not choose the devices.
func stored(d *v1alpha1.DeviceDrain) Devices {
	if n := count(d.Status.Devices); n > v1alpha1.DrainDevicesMax {
		return Devices{Reason: v1alpha1.BlockedTooManyDevices, Message: fmt.Sprintf(
			"status.devices has %s, and a drain has at most %d: another client has written the status; delete the drain", plural.Of(n, "device"), v1alpha1.DrainDevicesMax)}
	}
	found := Devices{Names: expand(d.Status.Devices)}
	named := map[v1alpha1.DeviceName]bool{}
	for _, name := range d.Spec.Devices {
		named[name] = true
	}
	for _, name := range found.Names {
		is := d.Spec.WithPartitions || named[name]
		if selector := d.Spec.Selector; selector != nil {
			is = d.Spec.WithPartitions || (selector.Driver == nil || *selector.Driver == name.Driver) && (selector.Pool == nil || *selector.Pool == name.Pool)
		}
		if !is {
			return Devices{Reason: v1alpha1.BlockedNoDevices, Message: fmt.Sprintf(
				"status.devices has %s, which the spec does not select: another client has written the status; delete the drain", name)}
		}
	}
	return found
}

// ids are the names as other packages have them.
func ids(names []v1alpha1.DeviceName) iter.Seq[usage.DeviceID] {
	return func(yield func(usage.DeviceID) bool) {
		for _, name := range names {
			if !yield(usage.DeviceID(name)) {
				return
			}
		}
	}
}

// directly are the devices that a drain names or selects.
func directly(d *v1alpha1.DeviceDrain, find Find) Devices {
	if d.Spec.Selector == nil {
		return Devices{Names: slices.Compact(slices.SortedFunc(slices.Values(d.Spec.Devices), compareNames))}
	}
	found := find(d.Spec.Selector)
	switch {
	case len(found.Problems) > 0:
		return Devices{Reason: v1alpha1.BlockedSelector, Message: found.Problems[0].Message}
	case found.Failures.Expensive:
		return Devices{Reason: v1alpha1.BlockedSelector, Message: "the selector: " + found.Failures.First}
	case found.Failures.Devices > 0:
		return Devices{Reason: v1alpha1.BlockedSelector, Message: fmt.Sprintf(
			"the selector fails for %s, first %s: name the driver, or test that the attribute exists",
			plural.Of(found.Failures.Devices, "device"), found.Failures.First)}
	case len(found.Unknown) > 0 && d.Spec.UnknownDevices == "":
		var names []string
		for _, name := range found.Unknown {
			names = append(names, name.String())
		}
		return Devices{Reason: v1alpha1.BlockedUnknownDevices, Message: fmt.Sprintf(
			"claims hold %s that no slice has, so that the selector cannot be evaluated for them: %s; set spec.unknownDevices to Include or Exclude",
			plural.Of(len(names), "device"), plural.List(names, 8, len(names)))}
	}
	if d.Spec.UnknownDevices == v1alpha1.UnknownInclude {
		found.Devices = slices.SortedFunc(slices.Values(slices.Concat(found.Devices, found.Unknown)), compareNames)
	}
	switch {
	case len(found.Devices) == 0:
		return Devices{Reason: v1alpha1.BlockedNoDevices, Message: "the selector matches no published device yet"}
	case len(found.Devices) > v1alpha1.DrainDevicesMax:
		return Devices{Reason: v1alpha1.BlockedTooManyDevices, Message: fmt.Sprintf(
			"the selector matches %s, and a drain has at most %d: split the drain", plural.Of(len(found.Devices), "device"), v1alpha1.DrainDevicesMax)}
	}
	return Devices{Names: found.Devices}
}

// Names are the devices of a drain, none while its selector is not resolved.
func Names(d *v1alpha1.DeviceDrain) []v1alpha1.DeviceName {
	return Resolve(d, func(*v1alpha1.DrainSelector) targets.Found { return targets.Found{} }, nil).Names
}
