package roll

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// NodeCondition is the status of a condition of a node.
func NodeCondition(node *corev1.Node, kind string) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if string(c.Type) == kind {
			return c.Status
		}
	}
	return ""
}

// Selects reports whether a roll selects a node.
func Selects(r *v1alpha1.DeviceRoll, node *corev1.Node) bool {
	switch only := r.Spec.Nodes; {
	case only == nil:
		return true
	case only.Names != nil:
		return slices.Contains(only.Names, node.Name)
	default:
		return labels.SelectorFromSet(only.Labels).Matches(labels.Set(node.Labels))
	}
}

// NodeDevices are the devices of a node.
type NodeDevices struct {
	Devices    []v1alpha1.DeviceName
	Pools      []v1alpha1.RollPool
	Incomplete string
}

// PublishedBy are the devices of each node that a driver publishes; without a driver, those of all.
func PublishedBy(driver string, view *tracker.Snapshot) map[string]*NodeDevices {
	by := map[string]*NodeDevices{}
	for slice := range view.PublishedSlices() {
		if driver != "" && slice.Spec.Driver != driver {
			continue
		}
		generation, complete := view.CompleteGeneration(slice.Spec.Driver, slice.Spec.Pool.Name)
		obsolete := complete && slice.Spec.Pool.Generation < generation
		for i := range slice.Spec.Devices {
			node := slice.Spec.NodeName
			if own := slice.Spec.Devices[i].NodeName; own != nil {
				node = own
			}
			if node == nil || obsolete {
				continue
			}
			if by[*node] == nil {
				by[*node] = &NodeDevices{}
			}
			by[*node].add(slice, slice.Spec.Devices[i].Name, complete && generation == slice.Spec.Pool.Generation)
		}
	}
	return by
}

// add adds a device, unless its generation of the pool is not complete.
func (p *NodeDevices) add(slice *resourceapi.ResourceSlice, device string, complete bool) {
	driver, pool := slice.Spec.Driver, slice.Spec.Pool.Name
	if !complete {
		p.Incomplete = driver + "/" + pool
		return
	}
	p.Devices = append(p.Devices, v1alpha1.DeviceName{Driver: driver, Pool: pool, Device: device})
	for i := range p.Pools {
		if p.Pools[i].Driver == driver && p.Pools[i].Name == pool {
			p.Pools[i].Devices++
			return
		}
	}
	p.Pools = append(p.Pools, v1alpha1.RollPool{Driver: driver, Name: pool, Generation: slice.Spec.Pool.Generation, Devices: 1})
}

// Has reports whether a node has the pool of a device.
func (p *NodeDevices) Has(name v1alpha1.DeviceName) bool {
	return slices.ContainsFunc(p.Pools, func(pool v1alpha1.RollPool) bool { return pool.Driver == name.Driver && pool.Name == name.Pool })
}

// Published are the devices of each node that a driver publishes in complete pools; without a driver,
// those of all.
func Published(driver string, view *tracker.Snapshot) map[string][]v1alpha1.DeviceName {
	devices := map[string][]v1alpha1.DeviceName{}
	for node, found := range PublishedBy(driver, view) {
		devices[node] = found.Devices
	}
	return devices
}

// WorkDone reports whether a node has what the roll waits for.
func WorkDone(r *v1alpha1.DeviceRoll, node *corev1.Node) bool {
	work := r.Spec.NodeWork
	switch {
	case work == nil:
		return false
	case work.Condition != nil:
		return NodeCondition(node, work.Condition.Type) == cmp.Or(work.Condition.Status, corev1.ConditionTrue)
	case work.Annotation != nil:
		return node.Annotations[work.Annotation.Key] == work.Annotation.Value
	}
	return false
}
