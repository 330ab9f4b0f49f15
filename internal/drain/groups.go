package drain

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// The bounds of what a drain writes.
const (
	// maxSingle is how many devices are cordoned by one rule each, whatever their pools.
	maxSingle = 256
	// maxRules is how many rules a drain begins with.
	maxRules = 1024
	// maxNameBytes bounds the names in status.devices.
	maxNameBytes = 192 << 10
)

// A Pool names a pool of devices.
type Pool struct{ Driver, Name string }

func poolOf(name v1alpha1.DeviceName) Pool { return Pool{name.Driver, name.Pool} }

func compareNames(a, b v1alpha1.DeviceName) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
}

// Group groups devices by pools that have devices of the same names.
func Group(names []v1alpha1.DeviceName, whole func(Pool) bool) (groups []v1alpha1.DrainDevices) {
	devices := map[Pool][]string{}
	for _, name := range names {
		devices[poolOf(name)] = append(devices[poolOf(name)], name.Device)
	}
	at := map[string]int{}
	for _, pool := range slices.SortedFunc(maps.Keys(devices), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name))
	}) {
		slices.Sort(devices[pool])
		group := v1alpha1.DrainDevices{Driver: pool.Driver, Devices: slices.Compact(devices[pool]), WholePools: whole(pool)}
		key := fmt.Sprintf("%s/%t/%s", group.Driver, group.WholePools, strings.Join(group.Devices, "/"))
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key], groups = i, append(groups, group)
		}
		groups[i].Pools = append(groups[i].Pools, pool.Name)
	}
	return groups
}

// expand returns the devices of groups, in the order of their names.
func expand(groups []v1alpha1.DrainDevices) []v1alpha1.DeviceName {
	return slices.SortedFunc(Expand(groups), compareNames)
}

// count is how many devices groups have.
func count(groups []v1alpha1.DrainDevices) (n int) {
	for _, group := range groups {
		n += len(group.Pools) * len(group.Devices)
	}
	return n
}

// Expand yields the devices of groups, or none where they are more than a drain can have: who
// may write a status can name a million in a few bytes.
func Expand(groups []v1alpha1.DrainDevices) iter.Seq[v1alpha1.DeviceName] {
	return func(yield func(v1alpha1.DeviceName) bool) {
		if count(groups) > v1alpha1.DrainDevicesMax {
			return
		}
		for _, group := range groups {
			for _, pool := range group.Pools {
				for _, device := range group.Devices {
					if !yield(v1alpha1.DeviceName{Driver: group.Driver, Pool: pool, Device: device}) {
						return
					}
				}
			}
		}
	}
}

// groups are the devices as the status has them. A pool that is whole when the drain begins
// is so until it publishes another device, and never again.
func (in Input) groups() []v1alpha1.DrainDevices {
	was := in.Drain.Status.Devices
	if len(was) == 0 {
		return Group(in.Devices.Names, func(p Pool) bool { return len(in.Devices.Names) > maxSingle && in.Pools[p] })
	}
	whole, split := map[Pool]bool{}, false
	for _, group := range was {
		if !group.WholePools {
			continue
		}
		for _, name := range group.Pools {
			pool := Pool{group.Driver, name}
			alone, published := in.Pools[pool]
			whole[pool] = alone || !published
			split = split || !whole[pool]
		}
	}
	if !split {
		return was
	}
	return Group(in.Devices.Names, func(p Pool) bool { return whole[p] })
}

// tooMany returns why a drain of these devices cannot begin, or "".
func tooMany(groups []v1alpha1.DrainDevices) string {
	rules, bytes := 0, 0
	for _, group := range groups {
		for _, pool := range group.Pools {
			bytes += len(pool)
		}
		for _, device := range group.Devices {
			bytes += len(device)
		}
		if bytes += len(group.Driver); group.WholePools {
			rules += len(group.Pools)
		} else {
			rules += len(group.Pools) * len(group.Devices)
		}
	}
	switch {
	case rules > maxRules:
		return fmt.Sprintf("the devices need %s, and a drain begins with at most %d: drain whole pools, or split the drain", plural.Of(rules, "DeviceTaintRule"), maxRules)
	case bytes > maxNameBytes:
		return fmt.Sprintf("the names of the devices have %d bytes, and a status holds at most %d: split the drain", bytes, maxNameBytes)
	}
	return ""
}
