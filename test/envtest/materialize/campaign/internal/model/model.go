package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// A Name is that of an attribute or capacity, with its domain.
type Name struct {
	Full     string
	Capacity bool
}

// A Value is what a device has under a name.
type Value struct {
	// Text is the type and the value.
	Text string
	// Spelling is how the name is written in the slice. Empty is any.
	Spelling string
}

// A Device is one in a slice.
type Device struct {
	Name   string
	Values map[Name]Value
	Taints []string
}

// A Pool is what a driver publishes under one name: the devices of each slice.
type Pool struct {
	Driver, Name string
	Slices       [][]Device
}

// String is the name of the pool.
func (p Pool) String() string { return p.Driver + "/" + p.Name }

// A Patch is a ResourceSlicePatch.
type Patch struct {
	Name     string
	Created  time.Time
	Priority int64
	// Driver, Pool and Device are those of the filter; empty matches all.
	Driver, Pool, Device string
	// Selects is true for the devices that the selectors match. Nil matches all.
	Selects func(Device) bool
	// Changes are what the patch says. An empty text is a removal.
	Changes map[Name]string
}

// Of returns devices of a slice.
func Of(driver string, devices []resourceapi.Device) []Device {
	all := make([]Device, 0, len(devices))
	for i := range devices {
		d := &devices[i]
		one := Device{Name: d.Name, Values: map[Name]Value{}}
		for name, a := range d.Attributes {
			one.Values[Name{full(driver, string(name)), false}] = Value{Attribute(a), string(name)}
		}
		for name, c := range d.Capacity {
			one.Values[Name{full(driver, string(name)), true}] = Value{fmt.Sprint("quantity ", c.Value.Value()), string(name)}
		}
		for _, t := range d.Taints {
			one.Taints = append(one.Taints, fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
		}
		all = append(all, one)
	}
	return all
}

func full(driver, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return driver + "/" + name
}

// Attribute is the type and the value of an attribute.
func Attribute(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return "string " + *a.StringValue
	case a.IntValue != nil:
		return fmt.Sprint("int ", *a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprint("bool ", *a.BoolValue)
	case a.VersionValue != nil:
		return "version " + *a.VersionValue
	}
	return "unknown"
}

// Expect returns what is stored of a pool that a driver publishes.
func Expect(published Pool, patches []Patch) Pool {
	ordered := slices.SortedFunc(slices.Values(patches), func(a, b Patch) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	expected := Pool{Driver: published.Driver, Name: published.Name}
	for _, devices := range published.Slices {
		var all []Device
		for _, d := range devices {
			all = append(all, patched(published, d, ordered))
		}
		expected.Slices = append(expected.Slices, all)
	}
	return expected
}

// patched applies patches in the order of their precedence.
func patched(pool Pool, published Device, ordered []Patch) Device {
	d := Device{published.Name, maps.Clone(published.Values), published.Taints}
	decided := map[Name]bool{}
	for _, p := range ordered {
		if !p.matches(pool, published) {
			continue
		}
		for name, text := range p.Changes {
			if decided[name] {
				continue
			}
			decided[name] = true
			if text == "" {
				delete(d.Values, name)
				continue
			}
			d.Values[name] = Value{text, published.Values[name].Spelling}
		}
	}
	return d
}

func (p Patch) matches(pool Pool, d Device) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(p.Driver, pool.Driver) && is(p.Pool, pool.Name) && is(p.Device, d.Name) && (p.Selects == nil || p.Selects(d))
}
