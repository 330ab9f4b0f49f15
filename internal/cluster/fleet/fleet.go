// Package fleet is what a person looks at: the nodes of a cluster with their devices, each with a
// state. It is pure: it knows no client and no clock.
//
// [Build] makes a [Fleet] of an [Input]. A device is never free if claims that can hold it could
// not be read; [Fleet].Partial says so.
package fleet

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/text/natural"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// MaxDevices is how many devices a fleet has at most; a note names the number of the others.
const MaxDevices = 100_000

// Input is what is known of a cluster. Nothing in it is changed.
type Input struct {
	// View has the devices, taints, patches and classes; nil has none.
	View   *tracker.Snapshot
	Claims []*resourceapi.ResourceClaim
	// Nodes are all; nil are not known.
	Nodes  []*corev1.Node
	Drains []*v1alpha1.DeviceDrain
	// Reactions are those of the cluster.
	Reactions []*v1alpha1.DeviceReaction
	// Rolls are those of the cluster.
	Rolls []*v1alpha1.DeviceRoll
	// Pods, Templates, Groups and Budgets are those of all namespaces. Only questions about pods
	// need them: [Build] does not.
	Pods       []*corev1.Pod
	Templates  []*resourceapi.ResourceClaimTemplate
	Groups     []*schedulingapi.PodGroup
	Budgets    []*policyv1.PodDisruptionBudget
	Thresholds taints.Thresholds
	// Partial is true if there are claims that could not be read.
	Partial bool
	// NoClasses is true if DeviceClasses could not be read, NoGroups if PodGroups could not,
	// NoPods and NoBudgets likewise.
	NoClasses, NoGroups, NoPods, NoBudgets bool
	// IncompletePools is true for a kube-scheduler before 1.35.
	IncompletePools bool
	Gates           gates.Gates
	// Server is the version of the API server, empty if it is not known.
	Server string
	// At is when a cluster was read; zero for files.
	At time.Time
	// Notes are about what could not be read.
	Notes []string
}

// Capacity is the cluster as package capacity counts it.
func (in Input) Capacity() capacity.Cluster {
	return capacity.Cluster{View: in.View, Claims: in.Claims, Partial: in.Partial, Nodes: in.Nodes, IncompletePools: in.IncompletePools, Gates: in.Gates, Notes: in.Notes}
}

// A Fleet is the devices of a cluster at one time. It does not change.
type Fleet struct {
	Input Input
	// Devices are in the order of their nodes, drivers, pools and names.
	Devices []Device
	// Codes has the state of each device, see [State.Code].
	Codes []byte
	// Totals counts the devices by state.
	Totals Totals
	// Partial is true if there are claims that could not be read.
	Partial bool
	Notes   []string
	// Layout is equal in two fleets if these have the same devices on the same nodes with the same
	// labels, so that only states differ.
	Layout uint64

	nodes  map[string]*corev1.Node
	byName map[usage.DeviceID]int
	order  []int
}

// A Device is one device with what the map and the search need.
type Device struct {
	ID usage.DeviceID
	// Node is where it is, empty if that is more than one.
	Node  string
	State State
	// Capacity is its state as package capacity counts it, Reason why it is unreachable.
	Capacity capacity.State
	Reason   capacity.Reason
	Model    string
	Claims   []*resourceapi.ResourceClaim
	// Drains are the names of the drains of which it is a device and that have not ended.
	Drains []string
	// Sick is the condition by which its driver reports it broken, empty if it does not.
	Sick string

	tracker tracker.Device
	// base is the state apart from drains and sickness.
	base State
}

// Totals counts devices.
type Totals struct {
	Devices int
	Nodes   int
	// Held, Free and Unknown add up to Devices.
	Held, Free, Unknown int
	Marks               [Marks]int
}

// Build makes a fleet. before is an earlier one of the same cluster, or nil: a fleet with the same
// devices keeps its order.
func Build(ctx context.Context, in Input, before *Fleet) (*Fleet, error) {
	if in.View == nil {
		in.View = &tracker.Snapshot{}
	}
	if f, err := updated(ctx, in, before); f != nil || err != nil {
		return f, err
	}
	all, err := in.Capacity().Devices(ctx)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Input: in, Partial: in.Partial, Notes: slices.Clone(in.Notes), nodes: nodesByName(in.Nodes)}
	if rest := len(all) - MaxDevices; rest > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("the map shows %d devices and leaves out %s", MaxDevices, plural.Of(rest, "other")))
		all = all[:MaxDevices]
	}
	f.Devices = f.arranged(all, before)
	f.setStates()
	f.Layout = f.layout()
	return f, nil
}

func nodesByName(nodes []*corev1.Node) map[string]*corev1.Node {
	all := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		all[node.Name] = node
	}
	return all
}

func newDevice(d *capacity.Device, partial bool) Device {
	return Device{ID: usage.DeviceID{Driver: d.Tracker.Driver(), Pool: d.Tracker.Pool(), Device: d.Tracker.Name()}, Node: d.Node,
		Capacity: d.State, Reason: d.Reason, Model: d.Model, Claims: d.Claims, tracker: d.Tracker, base: stateOf(d, partial)}
}

// arranged returns the devices in their order.
func (f *Fleet) arranged(all []capacity.Device, before *Fleet) []Device {
	devices := make([]Device, len(all))
	for i := range all {
		devices[i] = newDevice(&all[i], f.Partial)
	}
	if before != nil && before.sameOrder(devices) {
		f.order, f.byName = before.order, before.byName
	} else {
		f.order = make([]int, len(devices))
		for i := range f.order {
			f.order[i] = i
		}
		slices.SortStableFunc(f.order, func(a, b int) int { return compare(&devices[a], &devices[b]) })
	}
	sorted := make([]Device, len(devices))
	for i, at := range f.order {
		sorted[i] = devices[at]
	}
	if f.byName == nil {
		f.byName = make(map[usage.DeviceID]int, len(sorted))
		for i := range sorted {
			f.byName[sorted[i].ID] = i
		}
	}
	return sorted
}

// sameOrder reports whether devices, in the order of their slices, are those of the fleet.
func (f *Fleet) sameOrder(devices []Device) bool {
	if len(f.order) != len(devices) {
		return false
	}
	for i, at := range f.order {
		if f.Devices[i].ID != devices[at].ID || f.Devices[i].Node != devices[at].Node {
			return false
		}
	}
	return true
}

func compare(a, b *Device) int {
	if c := natural.Compare(a.Node, b.Node); c != 0 {
		return c
	}
	if c := strings.Compare(a.ID.Driver, b.ID.Driver); c != 0 {
		return c
	}
	if c := natural.Compare(a.ID.Pool, b.ID.Pool); c != 0 {
		return c
	}
	return natural.Compare(a.ID.Device, b.ID.Device)
}

// setStates finds the states of the devices that drains and drivers change, and counts them.
func (f *Fleet) setStates() {
	draining, sick := f.draining(), f.sick()
	f.Codes = make([]byte, len(f.Devices))
	last := ""
	for i := range f.Devices {
		d := &f.Devices[i]
		d.State, d.Drains, d.Sick = d.base, nil, ""
		if len(draining) > 0 {
			d.Drains = draining[d.ID]
		}
		if record, said := sick.Of(d.ID); said {
			d.Sick = record.Message
		}
		if len(d.Drains) > 0 {
			d.State.Mark = max(d.State.Mark, Draining)
		}
		if d.Sick != "" {
			d.State.Mark = max(d.State.Mark, Sick)
		}
		f.Codes[i] = d.State.Code()
		f.Totals.add(d.State)
		if d.Node != "" && d.Node != last {
			last = d.Node
			f.Totals.Nodes++
		}
	}
}

func (t *Totals) add(s State) {
	t.Devices++
	t.Marks[s.Mark]++
	switch s.Fill {
	case Held:
		t.Held++
	case Free:
		t.Free++
	default:
		t.Unknown++
	}
}

// draining are the devices of drains that have not ended.
func (f *Fleet) draining() map[usage.DeviceID][]string {
	all := map[usage.DeviceID][]string{}
	for _, drain := range f.Input.Drains {
		if Ended(drain) {
			continue
		}
		for id := range DevicesOf(drain) {
			if _, shown := f.byName[id]; shown {
				all[id] = append(all[id], drain.Name)
			}
		}
	}
	return all
}

// layout identifies the devices and the labels by which they are grouped.
func (f *Fleet) layout() uint64 {
	h := fnv.New64a()
	write := func(text string) { _, _ = h.Write(append([]byte(text), 0)) } // never fails
	last := ""
	for i := range f.Devices {
		d := &f.Devices[i]
		write(d.ID.Driver)
		write(d.ID.Pool)
		write(d.ID.Device)
		if d.Node == last {
			continue
		}
		last = d.Node
		write(d.Node)
		if node := f.nodes[d.Node]; node != nil {
			for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
				write(key)
				write(node.Labels[key])
			}
		}
	}
	return h.Sum64()
}

// Find returns a device.
func (f *Fleet) Find(id usage.DeviceID) (*Device, bool) {
	i, found := f.byName[id]
	if !found {
		return nil, false
	}
	return &f.Devices[i], true
}

// Node returns a node, nil if it could not be read.
func (f *Fleet) Node(name string) *corev1.Node { return f.nodes[name] }
