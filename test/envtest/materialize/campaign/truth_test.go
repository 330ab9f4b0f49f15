package campaign

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxPools, maxSlices and maxDevices bound what a driver publishes.
	maxPools, maxSlices, maxDevices = 3, 3, 5
	// patchValues is how many values patches have for one name, so that a patch has again what it had
	// before, and that drivers happen to publish it.
	patchValues = 3
)

// chance is true in so many of a hundred cases.
func (d *driver) chance(percent int) bool { return d.random.IntN(100) < percent }

// fresh is a number that no device had before.
func (d *driver) fresh() int {
	d.serial++
	return d.serial
}

// device is a new one. Its attributes are spelled with the domain of the driver or without.
func (d *driver) device(name string) resourceapi.Device {
	one := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}}
	one.Attributes["serial"] = resourceapi.DeviceAttribute{StringValue: new(fmt.Sprint("s-", d.fresh()))}
	spelled := d.chance(50)
	for _, key := range attributeKeys() {
		if d.chance(75) {
			one.Attributes[d.spelling(key, spelled)] = d.attribute(key)
		}
	}
	if d.chance(50) {
		one.Attributes["tier"] = resourceapi.DeviceAttribute{StringValue: new("gold")}
	}
	one.Capacity["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(d.fresh()), resource.DecimalSI)}
	return one
}

// attributeKeys are the attributes that patches change, too. One has a domain of its own.
func attributeKeys() []string {
	return []string{"model", "count", "firmware", "gone", "site.example.com/rack"}
}

func (d *driver) spelling(key string, full bool) resourceapi.QualifiedName {
	if full && key == "model" {
		return resourceapi.QualifiedName(d.name + "/" + key)
	}
	return resourceapi.QualifiedName(key)
}

// attribute is a value of the driver's own.
func (d *driver) attribute(key string) resourceapi.DeviceAttribute {
	return attributeOf(key, d.fresh())
}

// attributeOf is the value with a number. Those of patches are below zero.
func attributeOf(key string, number int) resourceapi.DeviceAttribute {
	switch key {
	case "count":
		return resourceapi.DeviceAttribute{IntValue: new(int64(number))}
	case "firmware":
		if number < 0 {
			return resourceapi.DeviceAttribute{VersionValue: new(fmt.Sprintf("0.%d.0", -number))}
		}
		return resourceapi.DeviceAttribute{VersionValue: new(fmt.Sprintf("1.%d.0", number))}
	}
	return resourceapi.DeviceAttribute{StringValue: new(fmt.Sprint("v", number))}
}

// change lets the driver find other values of some devices, at least of one.
func (d *driver) change() {
	pool := d.truth[d.pool()]
	some := false
	for _, devices := range pool {
		for i := range devices {
			if d.chance(40) {
				d.changeDevice(&devices[i])
				some = true
			}
		}
	}
	if !some {
		devices := pool[d.random.IntN(len(pool))]
		d.changeDevice(&devices[d.random.IntN(len(devices))])
	}
}

// changeDevice changes a device. Together with a value that is dropped, or that a patch could have
// written, its serial number changes: docs/patches.md says that the driver's earlier value is used
// otherwise.
func (d *driver) changeDevice(one *resourceapi.Device) {
	*one = *one.DeepCopy()
	ambiguous := false
	for _, key := range attributeKeys() {
		name := resourceapi.QualifiedName(key)
		if _, full := one.Attributes[d.spelling(key, true)]; full {
			name = d.spelling(key, true)
		}
		switch d.random.IntN(6) {
		case 0:
			delete(one.Attributes, name)
			ambiguous = true
		case 1:
			one.Attributes[name] = d.attribute(key)
		case 2:
			one.Attributes[name] = attributeOf(key, -1-d.random.IntN(patchValues))
			ambiguous = true
		}
	}
	switch d.random.IntN(4) {
	case 0:
		one.Capacity["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(d.fresh()), resource.DecimalSI)}
	case 1:
		one.Capacity["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(patchedMemory+d.random.Int64N(patchValues), resource.DecimalSI)}
		ambiguous = true
	}
	if one.Taints = nil; d.chance(20) {
		one.Taints = []resourceapi.DeviceTaint{{Key: "driver.example.com/hot", Value: "yes", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	if ambiguous || d.chance(50) {
		one.Attributes["serial"] = resourceapi.DeviceAttribute{StringValue: new(fmt.Sprint("s-", d.fresh()))}
	}
}

// renumber changes the serial number of every device.
func (d *driver) renumber() {
	for _, pool := range d.truth {
		for _, devices := range pool {
			for i := range devices {
				devices[i] = *devices[i].DeepCopy()
				devices[i].Attributes["serial"] = resourceapi.DeviceAttribute{StringValue: new(fmt.Sprint("s-", d.fresh()))}
			}
		}
	}
}

// pool is the name of one of the driver's pools.
func (d *driver) pool() string {
	names := slices.Sorted(maps.Keys(d.truth))
	return names[d.random.IntN(len(names))]
}

// slice is a list of new devices of a pool.
func (d *driver) slice(pool [][]resourceapi.Device) (devices []resourceapi.Device) {
	for range 1 + d.random.IntN(2) {
		devices = append(devices, d.device(unused(append(slices.Clone(pool), devices))))
	}
	return devices
}

// unused is the first name that no device of a pool has, perhaps one that was dropped.
func unused(pool [][]resourceapi.Device) string {
	for i := 0; ; i++ {
		name := fmt.Sprint("dev-", i)
		if !slices.ContainsFunc(slices.Concat(pool...), func(d resourceapi.Device) bool { return d.Name == name }) {
			return name
		}
	}
}

func (d *driver) addPool(name string) {
	for range 1 + d.random.IntN(2) {
		d.truth[name] = append(d.truth[name], d.slice(d.truth[name]))
	}
}

// addOrDropPool drops a pool, or adds one that the driver perhaps had before.
func (d *driver) addOrDropPool() {
	name := fmt.Sprint("pool-", d.random.IntN(maxPools))
	switch {
	case d.truth[name] == nil:
		d.addPool(name)
	case len(d.truth) > 1:
		delete(d.truth, name)
	}
}

func (d *driver) addSlice() {
	name := d.pool()
	if pool := d.truth[name]; len(pool) < maxSlices {
		d.truth[name] = slices.Insert(slices.Clone(pool), d.random.IntN(len(pool)+1), d.slice(pool))
	}
}

func (d *driver) dropSlice() {
	name := d.pool()
	if pool := d.truth[name]; len(pool) > 1 {
		at := d.random.IntN(len(pool))
		d.truth[name] = slices.Delete(slices.Clone(pool), at, at+1)
	}
}

func (d *driver) addDevice() {
	pool := d.truth[d.pool()]
	at := d.random.IntN(len(pool))
	if len(pool[at]) < maxDevices {
		pool[at] = append(slices.Clone(pool[at]), d.device(unused(pool)))
	}
}

// takeDevice removes a device from a pool, unless it is the last one of its slice.
func (d *driver) takeDevice(pool [][]resourceapi.Device) (one resourceapi.Device, taken bool) {
	at := d.random.IntN(len(pool))
	if len(pool[at]) < 2 {
		return one, false
	}
	i := d.random.IntN(len(pool[at]))
	one = pool[at][i]
	pool[at] = slices.Delete(slices.Clone(pool[at]), i, i+1)
	return one, true
}

func (d *driver) dropDevice() { d.takeDevice(d.truth[d.pool()]) }

// moveDevice moves a device to a slice of its pool.
func (d *driver) moveDevice() {
	pool := d.truth[d.pool()]
	if one, taken := d.takeDevice(pool); taken {
		at := d.random.IntN(len(pool))
		pool[at] = append(slices.Clone(pool[at]), one)
	}
}
