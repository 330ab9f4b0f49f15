package roll

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/reconcile"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A cluster is what the rolls of one pass share.
type cluster struct {
	view   *tracker.Snapshot
	drains []*v1alpha1.DeviceDrain
	// busy are the nodes on which rolls work, with the name of the roll.
	busy map[string]string
	now  time.Time
}

// rolls are all rolls as they were read or written last, by name.
func (c *Controller) rolls() (all []*v1alpha1.DeviceRoll) {
	for _, object := range c.options.Rolls.GetStore().List() {
		read, is := object.(*v1alpha1.DeviceRoll)
		if !is {
			continue
		}
		if written := c.written[read.Name]; written != nil && written.UID == read.UID && reconcile.Newer(written.ResourceVersion, read.ResourceVersion) {
			read = written
		} else {
			delete(c.written, read.Name)
		}
		all = append(all, read)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.DeviceRoll) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// gather finds out what there is to decide about.
func (c *Controller) gather(ctx context.Context, r *v1alpha1.DeviceRoll, all *cluster) Input {
	in := Input{Roll: r, Now: all.now, Nodes: map[string]Node{}}
	if err := c.options.Tracker.Ready(); err != nil {
		in.Unknown = err.Error()
		return in
	}
	for _, d := range all.drains {
		if ownedIs(d, r) {
			in.Drains = append(in.Drains, d)
		}
	}
	devices := publishedBy(r.Spec.Driver, all.view)
	begun := map[string]*v1alpha1.RollNode{}
	for i := range r.Status.Nodes {
		begun[r.Status.Nodes[i].Name] = &r.Status.Nodes[i]
	}
	for _, object := range c.options.Nodes.GetStore().List() {
		node, is := object.(*corev1.Node)
		if !is {
			continue
		}
		found, has := devices[node.Name]
		if has && Selects(r, node) {
			in.Selected = append(in.Selected, node.Name)
		} else if begun[node.Name] == nil {
			continue
		}
		if !has {
			found = &published{}
		}
		in.Nodes[node.Name] = c.node(ctx, r, node, found, cmp.Or(begun[node.Name], &v1alpha1.RollNode{}), all)
	}
	driverDevices := guard.PublishedDevices(all.view.PublishedSlices())
	if c.options.Foresight != nil {
		in.Stranded = func(node string) int { return c.foresee(ctx, r, node, in.Nodes[node].Devices, all.now) }
	}
	in.Begun = c.options.Beginnings.Begun(all.now, c.options.Window)
	in.Window = guard.Window{Length: c.options.Window, Thresholds: c.options.Thresholds, Published: func(driver string) int { return driverDevices[driver] }}
	return in
}

// maxPools is how many pools of a node are compared.
const maxPools = 64

// node is a node as a roll sees it.
func (c *Controller) node(ctx context.Context, r *v1alpha1.DeviceRoll, node *corev1.Node, found *published, own *v1alpha1.RollNode, all *cluster) Node {
	slices.SortFunc(found.pools, func(a, b v1alpha1.RollPool) int {
		return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Name, b.Name))
	})
	n := Node{
		Ready: nodeCondition(node, string(corev1.NodeReady)) == corev1.ConditionTrue, Unschedulable: node.Spec.Unschedulable,
		CordonedBy: node.Annotations[v1alpha1.RollAnnotation], Group: node.Labels[r.Spec.PerLabel],
		Devices: found.devices, Pools: found.pools[:min(len(found.pools), maxPools)], Incomplete: found.incomplete, WorkDone: workDone(r, node),
		Refused: c.refused[r.Name+"/"+node.Name],
	}
	if by := all.busy[node.Name]; by != r.Name {
		n.Busy = by
	}
	n.Unpublished = c.unpublished(node.Name, found, own.Pools)
	n.Hit = c.options.Usage.ImpactOn(slices.Values(held(r, node.Name, slices.Concat(n.Devices, n.Unpublished), all)), nil).Hit()
	if r.Spec.DriverPods != nil && InWork(own.State) {
		c.readPods(ctx, r, node.Name, &n)
	}
	if r.Spec.Proof != nil {
		c.readProof(ctx, r, own, &n)
	}
	return n
}

// unpublished are the devices of the pools of a node that pods hold and the driver no longer publishes: it still has to
// unprepare their claims.
func (c *Controller) unpublished(node string, found *published, before []v1alpha1.RollPool) (devices []v1alpha1.DeviceName) {
	pools := map[string]map[string]bool{}
	for _, p := range slices.Concat(found.pools, before) {
		if pools[p.Driver] == nil {
			pools[p.Driver] = map[string]bool{}
		}
		pools[p.Driver][p.Name] = true
	}
	known := sets.New(found.devices...)
	for driver, names := range pools {
		for _, prepared := range c.options.Usage.Prepared(node, driver) {
			for _, r := range prepared.Claim.Status.Allocation.Devices.Results {
				device := v1alpha1.DeviceName{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
				if r.Driver == driver && names[r.Pool] && !known.Has(device) {
					known.Insert(device)
					devices = append(devices, device)
				}
			}
		}
	}
	slices.SortFunc(devices, func(a, b v1alpha1.DeviceName) int { return usage.DeviceID(a).Compare(usage.DeviceID(b)) })
	return devices
}

// readProof reads the proof of a node in work. It is also read for one that is left out or taken back, until it is gone.
func (c *Controller) readProof(ctx context.Context, r *v1alpha1.DeviceRoll, own *v1alpha1.RollNode, n *Node) {
	key := r.Name + "/" + own.Name
	left := own.State == v1alpha1.RollSkipped || own.State == v1alpha1.RollUndone
	if !left {
		delete(c.proofless, key)
	}
	if !InWork(own.State) && !left || c.proofless[key] == r.UID {
		return
	}
	pod, claim, err := c.options.API.Proof(ctx, r.Spec.Proof.Namespace, DrainName(r.Name, own.Name))
	n.Proof = proofState(r, pod, claim)
	switch {
	case err != nil:
		n.Proof.Exists, n.Refused = false, denied(err, "the proof", r.Spec.Proof.Namespace, "controller.rolls.proofNamespaces")
	case left && !n.Proof.Exists:
		c.proofless[key] = r.UID
	}
}

// held are devices of a node, and those that its drain has.
func held(r *v1alpha1.DeviceRoll, node string, of []v1alpha1.DeviceName, all *cluster) (devices []usage.DeviceID) {
	for _, name := range of {
		devices = append(devices, usage.DeviceID(name))
	}
	for _, d := range all.drains {
		if d.Name != DrainName(r.Name, node) {
			continue
		}
		for _, name := range drain.Names(d) {
			devices = append(devices, usage.DeviceID(name))
		}
	}
	slices.SortFunc(devices, usage.DeviceID.Compare)
	return slices.Compact(devices)
}

// readPods reads the pods of the driver on a node.
func (c *Controller) readPods(ctx context.Context, r *v1alpha1.DeviceRoll, node string, n *Node) {
	pods, err := c.options.API.DriverPods(ctx, r.Spec.DriverPods, node)
	if err != nil {
		n.PodsUnknown = "the pods of the driver cannot be read: " + err.Error()
		return
	}
	for i := range pods {
		pod := Pod{Node: node, UID: pods[i].UID, Deleting: pods[i].DeletionTimestamp != nil, Message: whyNotReady(&pods[i])}
		pod.Namespace, pod.Name = pods[i].Namespace, pods[i].Name
		for _, c := range pods[i].Status.Conditions {
			pod.Ready = pod.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		n.Pods = append(n.Pods, pod)
	}
}

// workDone reports whether a node has what the roll waits for.
func workDone(r *v1alpha1.DeviceRoll, node *corev1.Node) bool {
	work := r.Spec.NodeWork
	switch {
	case work == nil:
		return false
	case work.Condition != nil:
		return nodeCondition(node, work.Condition.Type) == cmp.Or(work.Condition.Status, corev1.ConditionTrue)
	case work.Annotation != nil:
		return node.Annotations[work.Annotation.Key] == work.Annotation.Value
	}
	return false
}

// denied is why a write failed, with the value of the chart that grants the right.
func denied(err error, what, namespace, value string) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("%s: the controller has no right in namespace %s: add it to %s of the chart", what, namespace, value)
	}
	return what + ": " + err.Error()
}
