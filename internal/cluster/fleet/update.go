package fleet

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// mostly is the part of the pools above which all states are found again: 1 of mostly.
const mostly = 4

// A pool is one of a driver.
type pool struct{ driver, name string }

// few is up to how many pools comparing is faster than hashing.
const few = 8

// contains returns a function that reports whether a pool is one of these.
func contains(pools map[pool]bool) func(driver, name string) bool {
	if len(pools) > few {
		return func(driver, name string) bool { return pools[pool{driver, name}] }
	}
	list := slices.Collect(maps.Keys(pools))
	return func(driver, name string) bool {
		for i := range list {
			if list[i].name == name && list[i].driver == driver {
				return true
			}
		}
		return false
	}
}

// updated makes a fleet of an earlier one: only the devices of pools with a change are looked at
// again. It returns nil if devices or the labels of nodes differ, or if that would not be faster.
// The objects of an input do not change, so that equal pointers are equal objects.
func updated(ctx context.Context, in Input, before *Fleet) (*Fleet, error) {
	if before == nil || !before.comparable(in) {
		return nil, nil
	}
	pools, total := before.changedSlices(in)
	if pools == nil {
		return nil, nil
	}
	for _, claim := range different(before.Input.Claims, in.Claims) {
		for id := range results(claim) {
			pools[pool{id.Driver, id.Pool}] = true
		}
	}
	if len(pools) > max(8, total/mostly) {
		return nil, nil
	}
	part, err := in.of(pools).Capacity().Devices(ctx)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Input: in, Partial: in.Partial, Notes: slices.Clone(in.Notes), Devices: slices.Clone(before.Devices), Layout: before.Layout,
		nodes: before.nodes, byName: before.byName, order: before.order}
	left, changed := 0, contains(pools)
	for i := range f.Devices {
		if changed(f.Devices[i].ID.Driver, f.Devices[i].ID.Pool) {
			left++
		}
	}
	for i := range part {
		d := newDevice(&part[i], in.Partial)
		at, known := f.byName[d.ID]
		if !known || f.Devices[at].Node != d.Node {
			return nil, nil
		}
		f.Devices[at] = d
		left--
	}
	if left != 0 { // devices have gone, or are in two slices
		return nil, nil
	}
	if len(different(before.Input.Nodes, in.Nodes)) > 0 {
		f.nodes = nodesByName(in.Nodes)
	}
	f.setStates()
	return f, nil
}

// comparable reports whether the inputs differ in slices, taints, claims and drains only, as far as
// states depend on them.
func (f *Fleet) comparable(in Input) bool {
	was := f.Input
	return was.View != nil && len(f.Devices) < MaxDevices && was.Partial == in.Partial && was.NoClasses == in.NoClasses && was.IncompletePools == in.IncompletePools &&
		slices.Equal(was.Gates.Enabled(), in.Gates.Enabled()) && slices.Equal(slices.Collect(was.View.Classes()), slices.Collect(in.View.Classes())) && sameNodes(was.Nodes, in.Nodes)
}

// sameNodes reports whether nodes differ at most in what states and groups do not depend on, such
// as their heartbeats.
func sameNodes(a, b []*corev1.Node) bool {
	if (a == nil) != (b == nil) || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if a[i].Name != b[i].Name || a[i].Spec.Unschedulable != b[i].Spec.Unschedulable || ready(a[i]) != ready(b[i]) || !maps.Equal(a[i].Labels, b[i].Labels) {
			return false
		}
	}
	return true
}

func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// Differs reports whether a device is not what it was in an earlier fleet with the same layout: its state, claims, taints,
// drains, sickness or model.
func (f *Fleet) Differs(before *Fleet, index int) bool {
	was, is := &before.Devices[index], &f.Devices[index]
	return before.Codes[index] != f.Codes[index] || was.Sick != is.Sick || was.Model != is.Model || !slices.Equal(was.Drains, is.Drains) ||
		!slices.EqualFunc(was.Claims, is.Claims, sameClaim) ||
		was.tracker != is.tracker && !slices.EqualFunc(was.Taints(), is.Taints(), sameTaint)
}

func sameClaim(a, b *resourceapi.ResourceClaim) bool {
	return a == b || a.Namespace == b.Namespace && a.Name == b.Name
}

func sameTaint(a, b resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// changedSlices are the pools with a slice that differs, and the number of all slices; nil if slices
// have come or gone.
func (f *Fleet) changedSlices(in Input) (pools map[pool]bool, total int) {
	was, is := f.Input.View.List(nil), in.View.List(nil)
	if len(was) != len(is) {
		return nil, 0
	}
	pools = map[pool]bool{}
	for i := range was {
		if was[i] == is[i] {
			continue
		}
		if was[i].Name != is[i].Name {
			return nil, 0
		}
		for _, slice := range []*resourceapi.ResourceSlice{was[i], is[i]} {
			pools[pool{slice.Spec.Driver, slice.Spec.Pool.Name}] = true
		}
	}
	return pools, len(is)
}

// different are the objects that are in one of two lists only.
func different[T any](a, b []*T) (all []*T) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	in := make(map[*T]bool, len(a))
	for _, object := range a {
		in[object] = true
	}
	for _, object := range b {
		if in[object] {
			delete(in, object)
		} else {
			all = append(all, object)
		}
	}
	return slices.AppendSeq(all, maps.Keys(in))
}

// results are the devices of a claim.
func results(claim *resourceapi.ResourceClaim) map[usage.DeviceID]bool {
	all := map[usage.DeviceID]bool{}
	if claim.Status.Allocation != nil {
		for _, r := range claim.Status.Allocation.Devices.Results {
			all[usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}] = true
		}
	}
	return all
}

// of is the part of a cluster that some pools depend on.
func (in Input) of(pools map[pool]bool) Input {
	var objects []any
	part := contains(pools)
	for slice := range in.View.StoredSlices() {
		if part(slice.Spec.Driver, slice.Spec.Pool.Name) {
			objects = append(objects, slice)
		}
	}
	for rule := range in.View.Rules() {
		objects = append(objects, rule)
	}
	for patch := range in.View.Patches() {
		objects = append(objects, patch)
	}
	for class := range in.View.Classes() {
		objects = append(objects, class)
	}
	claims := in.Claims
	in.View, in.Claims = tracker.Merge(objects...), nil
	for _, claim := range claims {
		if claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return part(r.Driver, r.Pool)
		}) {
			in.Claims = append(in.Claims, claim)
		}
	}
	return in
}
