package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// A Difference is one between what is stored and what must be.
type Difference struct {
	Driver, Pool, Text string
}

// String describes it.
func (d Difference) String() string { return d.Driver + "/" + d.Pool + ": " + d.Text }

// Compare returns how stored slices differ from the pools that must be there.
func Compare(expected []Pool, stored []resourceapi.ResourceSlice) (all []Difference) {
	type key struct{ driver, pool string }
	found := map[key][]resourceapi.ResourceSlice{}
	for _, s := range stored {
		k := key{s.Spec.Driver, s.Spec.Pool.Name}
		found[k] = append(found[k], s)
	}
	for _, pool := range expected {
		k := key{pool.Driver, pool.Name}
		for _, text := range comparePool(pool, found[k]) {
			all = append(all, Difference{pool.Driver, pool.Name, text})
		}
		delete(found, k)
	}
	for k, slices := range found {
		all = append(all, Difference{k.driver, k.pool, fmt.Sprintf("%d slices of a pool that is not published", len(slices))})
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

func comparePool(pool Pool, stored []resourceapi.ResourceSlice) (all []string) {
	if len(stored) != len(pool.Slices) {
		return []string{fmt.Sprintf("%d slices, want %d", len(stored), len(pool.Slices))}
	}
	// The names begin with the index.
	stored = slices.SortedFunc(slices.Values(stored), func(a, b resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	for i, s := range stored {
		if s.Spec.Pool.Generation != stored[0].Spec.Pool.Generation || s.Spec.Pool.ResourceSliceCount != int64(len(stored)) {
			all = append(all, fmt.Sprintf("slice %s is of generation %d with %d slices, the first one of generation %d", s.Name, s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount, stored[0].Spec.Pool.Generation))
		}
		got, want := Of(pool.Driver, s.Spec.Devices), pool.Slices[i]
		if len(got) != len(want) {
			all = append(all, fmt.Sprintf("slice %s has %d devices, want %d", s.Name, len(got), len(want)))
			continue
		}
		for j := range want {
			for _, text := range compareDevice(want[j], got[j]) {
				all = append(all, fmt.Sprintf("slice %s, device %s: %s", s.Name, got[j].Name, text))
			}
		}
	}
	return all
}

func compareDevice(want, got Device) (all []string) {
	if want.Name != got.Name {
		return []string{"want device " + want.Name}
	}
	if !slices.Equal(want.Taints, got.Taints) {
		all = append(all, fmt.Sprintf("taints %q, want %q", got.Taints, want.Taints))
	}
	names := maps.Clone(want.Values)
	maps.Copy(names, got.Values)
	for name := range names {
		w, wanted := want.Values[name]
		g, has := got.Values[name]
		switch {
		case !has:
			all = append(all, fmt.Sprintf("no %s, want %q", name, w.Text))
		case !wanted:
			all = append(all, fmt.Sprintf("%s is %q, want none", name, g.Text))
		case w.Text != g.Text:
			all = append(all, fmt.Sprintf("%s is %q, want %q", name, g.Text, w.Text))
		case w.Spelling != "" && w.Spelling != g.Spelling:
			all = append(all, fmt.Sprintf("%s is spelled %s, want %s", name, g.Spelling, w.Spelling))
		}
	}
	slices.Sort(all)
	return all
}

// String is the name with its kind.
func (n Name) String() string {
	if n.Capacity {
		return "capacity " + n.Full
	}
	return "attribute " + n.Full
}
