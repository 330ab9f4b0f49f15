package deviceroll

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A cluster is what the rolls of one pass share.
type cluster struct {
	view   *tracker.Snapshot
	drains []*v1alpha1.DeviceDrain
	// busy are the nodes on which rolls work, with the name of the roll.
	busy map[string]string
	// prepared are the claims that drivers have to unprepare, by driver and node: those of the drivers that a roll has asked for.
	prepared map[string]map[string][]usage.Preparation
	now      time.Time
}

// preparedOn are the claims that a driver has to unprepare on a node.
func (c *Controller) preparedOn(node, driver string, all *cluster) []usage.Preparation {
	if all.prepared == nil {
		all.prepared = map[string]map[string][]usage.Preparation{}
	}
	if all.prepared[driver] == nil {
		all.prepared[driver] = c.options.Usage.Prepared(driver)
	}
	return all.prepared[driver][node]
}

// drainsOf are the drains of a roll, without those of an earlier one of its name.
func (all *cluster) drainsOf(r *v1alpha1.DeviceRoll) (drains []*v1alpha1.DeviceDrain) {
	for _, d := range all.drains {
		if d.Labels[v1alpha1.RollLabel] == r.Name && roll.OwnedIs(d, r) {
			drains = append(drains, d)
		}
	}
	return drains
}

// rolls are all rolls as they were read or written last, by name.
func (c *Controller) rolls() (all []*v1alpha1.DeviceRoll) {
	for _, object := range c.options.Rolls.GetStore().List() {
		if read, is := object.(*v1alpha1.DeviceRoll); is {
			all = append(all, c.written.Newest(read))
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.DeviceRoll) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// gather finds out what there is to decide about.
func (c *Controller) gather(ctx context.Context, r *v1alpha1.DeviceRoll, all *cluster) roll.Input {
	in := roll.Input{Roll: r, Now: all.now, Nodes: map[string]roll.Node{}}
	if err := c.options.Tracker.Ready(); err != nil {
		in.Unknown = err.Error()
		return in
	}
	in.Drains = all.drainsOf(r)
	devices := roll.PublishedBy(r.Spec.Driver, all.view)
	was := map[string]v1alpha1.RollNode{}
	for i := range r.Status.Nodes {
		was[r.Status.Nodes[i].Name] = r.Status.Nodes[i]
	}
	for _, object := range c.options.Nodes.GetStore().List() {
		node, is := object.(*corev1.Node)
		if !is {
			continue
		}
		found, has := devices[node.Name]
		if has && roll.Selects(r, node) {
			in.Selected = append(in.Selected, node.Name)
		} else if was[node.Name].State == "" {
			continue
		}
		if !has {
			found = &roll.NodeDevices{}
		}
		in.Nodes[node.Name] = c.node(ctx, r, node, found, was[node.Name], all)
	}
	driverDevices := guard.PublishedDevices(all.view.PublishedSlices())
	if c.options.Foresight != nil {
		in.Stranded = func(node string) int { return c.foresee(ctx, r, node, in.Nodes[node].Devices, all.now) }
	}
	in.Begun = c.options.Beginnings.Begun(all.now, c.options.Window)
	in.Window = guard.Window{Length: c.options.Window, Thresholds: c.options.Thresholds, Published: func(driver string) int { return driverDevices[driver] }}
	return in
}

// node is a node as a roll sees it.
func (c *Controller) node(ctx context.Context, r *v1alpha1.DeviceRoll, node *corev1.Node, found *roll.NodeDevices, was v1alpha1.RollNode, all *cluster) roll.Node {
	slices.SortFunc(found.Pools, func(a, b v1alpha1.RollPool) int {
		return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Name, b.Name))
	})
	n := roll.Node{
		Ready: roll.NodeCondition(node, string(corev1.NodeReady)) == corev1.ConditionTrue, Unschedulable: node.Spec.Unschedulable,
		CordonedBy: node.Annotations[v1alpha1.RollAnnotation], Group: node.Labels[r.Spec.PerLabel],
		Devices: found.Devices, Pools: found.Pools[:min(len(found.Pools), roll.MaxPools)], Incomplete: found.Incomplete, WorkDone: roll.WorkDone(r, node),
		Refused: c.refused[r.Name+"/"+node.Name],
	}
	if by := all.busy[node.Name]; by != r.Name {
		n.Busy = by
	}
	devices := held(r, node.Name, found, all)
	c.readPrepared(r, node.Name, devices, found, all, &n)
	for _, name := range n.Unpublished {
		devices = append(devices, usage.DeviceID(name))
	}
	n.Hit = c.options.Usage.ImpactOn(slices.Values(devices), nil).Hit()
	switch {
	case r.Spec.DriverPods == nil:
	case was.State == v1alpha1.RollDone:
		n.Pods, n.PodsUnknown = c.podsOfDone(ctx, r, node.Name, all.now)
	case roll.InWork(was.State) || was.StartTime != nil && was.CompletionTime == nil:
		c.readPods(ctx, r, node.Name, &n)
	}
	if r.Spec.Proof != nil && was.StartTime != nil && was.CompletionTime == nil {
		pod, claim, err := c.options.API.Proof(ctx, r.Spec.Proof.Namespace, roll.DrainName(r.Name, node.Name))
		if n.Proof = roll.ProofState(r, pod, claim); err != nil {
			n.Proof.Exists, n.Refused = false, denied(err, "the proof", r.Spec.Proof.Namespace, "controller.rolls.proofNamespaces")
		}
	}
	return n
}

// held are the devices of a node that are published or that its drain has.
func held(r *v1alpha1.DeviceRoll, node string, found *roll.NodeDevices, all *cluster) (devices []usage.DeviceID) {
	for _, name := range found.Devices {
		devices = append(devices, usage.DeviceID(name))
	}
	drainName := roll.DrainName(r.Name, node)
	for _, d := range all.drains {
		if d.Name != drainName || !roll.OwnedIs(d, r) {
			continue
		}
		for _, name := range drain.Names(d) {
			devices = append(devices, usage.DeviceID(name))
		}
	}
	slices.SortFunc(devices, usage.DeviceID.Compare)
	return slices.Compact(devices)
}

// readPrepared finds the claims that a driver of the roll has to unprepare on a node, and their devices that the pools of
// the node no longer publish.
func (c *Controller) readPrepared(r *v1alpha1.DeviceRoll, node string, held []usage.DeviceID, found *roll.NodeDevices, all *cluster, n *roll.Node) {
	drivers := []string{r.Spec.Driver}
	if r.Spec.Driver == "" {
		drivers = nil
		for _, id := range held {
			drivers = append(drivers, id.Driver)
		}
	}
	for _, driver := range slices.Compact(drivers) {
		for _, p := range c.preparedOn(node, driver, all) {
			if claim := (types.NamespacedName{Namespace: p.Claim.Namespace, Name: p.Claim.Name}); !slices.Contains(n.Prepared, claim) {
				n.Prepared = append(n.Prepared, claim)
			}
			for _, result := range p.Claim.Status.Allocation.Devices.Results {
				name := v1alpha1.DeviceName{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
				if _, is := all.view.Device(name.Driver, name.Pool, name.Device); !is && found.Has(name) && !slices.Contains(n.Unpublished, name) {
					n.Unpublished = append(n.Unpublished, name)
				}
			}
		}
	}
}

// readPods reads the pods of the driver on a node.
func (c *Controller) readPods(ctx context.Context, r *v1alpha1.DeviceRoll, node string, n *roll.Node) {
	pods, err := c.options.API.DriverPods(ctx, r.Spec.DriverPods, node)
	if err != nil {
		n.PodsUnknown = "the pods of the driver cannot be read: " + err.Error()
		return
	}
	for i := range pods {
		n.Pods = append(n.Pods, roll.PodOf(&pods[i], node))
	}
}

// driverPods are those of all nodes, as they were read at a time.
type driverPods struct {
	at      time.Time
	byNode  map[string][]roll.Pod
	unknown string
}

// podsOfDone are the pods of the driver on a node that is done. Those of all nodes are read together, once in a period.
func (c *Controller) podsOfDone(ctx context.Context, r *v1alpha1.DeviceRoll, node string, now time.Time) (pods []roll.Pod, unknown string) {
	if r.Status.CompletionTime != nil {
		return nil, ""
	}
	if last := c.pods[r.Name]; last == nil || now.Sub(last.at) >= period || now.Before(last.at) {
		last = &driverPods{at: now, byNode: map[string][]roll.Pod{}}
		c.pods[r.Name] = last
		read, err := c.options.API.DriverPods(ctx, r.Spec.DriverPods, "")
		if err != nil {
			last.unknown = "the pods of the driver cannot be read: " + err.Error()
		}
		for i := range read {
			on := read[i].Spec.NodeName
			last.byNode[on] = append(last.byNode[on], roll.PodOf(&read[i], on))
		}
	}
	return c.pods[r.Name].byNode[node], c.pods[r.Name].unknown
}

// denied is why a write failed, with the value of the chart that grants the right.
func denied(err error, what, namespace, value string) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("%s: the controller has no right in namespace %s: add it to %s of the chart", what, namespace, value)
	}
	return what + ": " + err.Error()
}
