// Package targets says which devices a selector touches: those that are published in a generation that
// counts, and those that an allocated claim holds and no slice of such a generation has.
package targets

import (
	"cmp"
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Holders know which devices are allocated; a [usage.Index] does.
type Holders interface {
	Allocated(selector *resourceapi.DeviceTaintSelector) []usage.DeviceID
}

// Found are the devices of a selector.
type Found struct {
	patch.Selection
	// Unknown are allocated devices of the driver and pool that no slice has, or for whose slices the expressions of
	// the selector fail or cost too much: whether they are selected cannot be found out.
	Unknown []v1alpha1.DeviceName
}

// Select finds the devices of a selector. A device that is gone while a claim holds it is selected by its attributes
// in a slice of an older generation, if there is one. find evaluates it for the devices of slices.
func Select(find patch.Find, selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice], holders Holders) Found {
	found := Found{Selection: find(selector, all)}
	if holders == nil || len(found.Problems) > 0 {
		return found
	}
	published := names(patch.Counting(all))
	gone := map[v1alpha1.DeviceName]bool{}
	for _, id := range holders.Allocated(&resourceapi.DeviceTaintSelector{Driver: selector.Driver, Pool: selector.Pool}) {
		if name := v1alpha1.DeviceName(id); !published[name] {
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return found
	}
	old := obsolete(all)
	known := map[v1alpha1.DeviceName]bool{}
	if len(selector.Selectors) > 0 {
		older := find(selector, old)
		if older.Failures.Devices == 0 && !older.More {
			known = names(old)
		}
		for _, name := range older.Devices {
			if known[name] = true; gone[name] {
				found.Devices = append(found.Devices, name)
			}
		}
	}
	for name := range gone {
		switch {
		case len(selector.Selectors) == 0:
			found.Devices = append(found.Devices, name)
		case !known[name]:
			found.Unknown = append(found.Unknown, name)
		}
	}
	slices.SortFunc(found.Devices, compare)
	slices.SortFunc(found.Unknown, compare)
	return found
}

// obsolete are the slices of generations that do not count.
func obsolete(all iter.Seq[*resourceapi.ResourceSlice]) iter.Seq[*resourceapi.ResourceSlice] {
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		counts := map[*resourceapi.ResourceSlice]bool{}
		for slice := range patch.Counting(all) {
			counts[slice] = true
		}
		for slice := range all {
			if !counts[slice] && !yield(slice) {
				return
			}
		}
	}
}

// names are the devices of slices.
func names(all iter.Seq[*resourceapi.ResourceSlice]) map[v1alpha1.DeviceName]bool {
	found := map[v1alpha1.DeviceName]bool{}
	for slice := range all {
		for i := range slice.Spec.Devices {
			found[v1alpha1.DeviceName{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}] = true
		}
	}
	return found
}

func compare(a, b v1alpha1.DeviceName) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
}
