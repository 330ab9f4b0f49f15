package capacity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// MaxPods bounds how many pods are placed.
const MaxPods = 10_000

// A Question is how many pods fit.
type Question struct {
	Cluster placement.Cluster
	// Pod is what each of them is like. Claims that it names by a template are made for each.
	Pod *corev1.Pod
	// Leaving are pods that leave first. Those that a controller creates again are placed
	// before others.
	Leaving []placement.Leaving
	// Unordered is true for a kube-scheduler before 1.36: it looks at pools in any order.
	Unordered bool
}

// A Room is how many pods fit.
type Room struct {
	// Least and Most are the numbers with the worst and the best choice of nodes.
	Least int `json:"least"`
	Most  int `json:"most"`
	// Exact is true if no other number is possible, Proven if none outside of Least and Most
	// is. Otherwise Orders orders of nodes were tried.
	Exact  bool `json:"exact"`
	Proven bool `json:"proven"`
	Orders int  `json:"orders,omitempty"`
	// Bounded is true if the count ended at the most pods that are placed.
	Bounded bool `json:"bounded,omitempty"`
	// Slow are the nodes on which the search for devices took too long: more pods can fit there.
	Slow []string `json:"slow,omitempty"`
	// Nodes are how many fit on each node, in one order of several.
	Nodes []NodeRoom `json:"nodes"`
	// Limit is why the next pod does not fit.
	Limit *placement.Reason `json:"limit,omitempty"`
	// Unchecked names what decides about the pod and was not checked: it is unknown how many fit.
	Unchecked []string `json:"unchecked,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// A NodeRoom is how many pods fit on a node.
type NodeRoom struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
}

// Room counts the pods that fit: it places one after the other, with the allocator of
// kube-scheduler, until the next has no place.
func (q Question) Room(ctx context.Context) (Room, error) {
	f, err := q.begin(ctx)
	if err != nil {
		return Room{}, err
	}
	r := Room{Notes: slices.Clone(q.Cluster.Notes)}
	if q.Pod.Spec.SchedulingGroup != nil {
		r.Notes = append(r.Notes, "the pods of a PodGroup are counted one by one")
	}
	if waiting := q.waiting(); waiting > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d pods wait for a node already; they are not placed before", waiting))
	}
	first, err := f.base.Fits(ctx, f.replica(""))
	if err != nil {
		return r, err
	}
	r.Unchecked = first.Unknown
	full := f.base.Clone()
	found, err := f.fill(ctx, full)
	if err != nil {
		return r, err
	}
	r.Nodes = f.rooms(found)
	r.Least, r.Most, r.Orders, r.Bounded, r.Slow = found.pods, found.pods, 1, found.pods >= MaxPods, found.slow
	switch {
	case r.Bounded:
		return r, nil
	case len(r.Slow) > 0:
		r.Limit = &placement.Reason{Kind: placement.Slow, Message: placement.ErrSlow.Error()}
		return r, nil
	}
	full.Quiet(false)
	next, err := full.Fits(ctx, f.replica(""))
	if err != nil {
		return r, err
	}
	if r.Limit = &next.Reason; next.Lands() {
		return r, fmt.Errorf("pod %d fits on node %s, which is full", found.pods+1, next.Node)
	}
	if r.Proven = found.independent && f.fixed(found); !r.Proven {
		if err := f.vary(ctx, &r, found); err != nil {
			return r, err
		}
	}
	r.Exact = r.Proven && r.Least == r.Most && len(r.Unchecked) == 0
	return r, nil
}

// waiting counts the pods that have no node.
func (q Question) waiting() (n int) {
	for _, pod := range q.Cluster.Pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !placement.Finished(pod) && len(pod.Spec.SchedulingGates) == 0 {
			n++
		}
	}
	return n
}

// A filler places pods.
type filler struct {
	Question
	base  *placement.Simulation
	pod   *corev1.Pod
	nodes []string
	// local has the node of each pool that is on one node.
	local map[placement.PoolID]string
	// counters has the pools whose devices share counters.
	counters map[placement.PoolID]bool
	made     int
	// budget is how many pods may still be placed in other orders.
	budget int
}

func (q Question) begin(ctx context.Context) (*filler, error) {
	f := &filler{Question: q, base: q.Cluster.Begin(), pod: q.Pod.DeepCopy(), local: map[placement.PoolID]string{}, counters: map[placement.PoolID]bool{}}
	f.base.Quiet(true)
	f.pod.Status, f.pod.Spec.SchedulingGroup = corev1.PodStatus{}, nil
	seen, nodes := placement.Seen(q.Cluster.View, q.Cluster.Patched), q.Cluster.Nodes
	if len(nodes) == 0 && !q.Cluster.NoNodes {
		nodes = placement.NodesOf(seen)
	}
	for _, node := range nodes {
		if f.pod.Spec.NodeName == "" || f.pod.Spec.NodeName == node.Name {
			f.nodes = append(f.nodes, node.Name)
		}
	}
	slices.Sort(f.nodes)
	for _, slice := range seen {
		id, node := placement.PoolOf(slice), ""
		if slice.Spec.NodeName != nil {
			node = *slice.Spec.NodeName
		}
		if known, seen := f.local[id]; seen && known != node {
			node = ""
		}
		f.local[id] = node
		f.counters[id] = f.counters[id] || len(slice.Spec.SharedCounters) > 0
	}
	f.budget = placements / (1 + len(q.Cluster.Nodes) + len(q.Cluster.Claims) + len(q.Cluster.Pods))
	var again []*corev1.Pod
	for _, l := range q.Leaving {
		f.base.Remove(l.Pod)
		if next := placement.Again(l.Pod); next != nil {
			again = append(again, next)
		}
	}
	_, err := f.base.Place(ctx, again...)
	return f, err
}

// placements bounds how much work other orders may take: pods that are placed, times the size
// of the cluster.
const placements = 1_000_000

// replica is one more pod, for a node or any.
func (f *filler) replica(node string) *corev1.Pod {
	f.made++
	pod := *f.pod
	pod.Name = fmt.Sprintf("%s-%d", f.pod.Name, f.made)
	pod.UID = types.UID(fmt.Sprintf("fit %d", f.made))
	if node != "" {
		pod.Spec.NodeName = node
	}
	return &pod
}

// filled is how many pods were placed.
type filled struct {
	pods   int
	byNode map[string]int
	// independent is true if what is on one node cannot change what fits on another.
	independent bool
	// simple is true if no device that was allocated has counters or is shared.
	simple bool
	// slow are the nodes on which the search for devices took too long.
	slow []string
}

// fill places pods node by node.
func (f *filler) fill(ctx context.Context, s *placement.Simulation) (filled, error) {
	found := filled{byNode: map[string]int{}, independent: !f.shares(), simple: true}
	for _, node := range f.nodes {
		for found.pods < MaxPods {
			results, err := s.Place(ctx, f.replica(node))
			if err != nil {
				return found, err
			}
			if !results[0].Lands() {
				if results[0].Reason.Kind == placement.Slow {
					found.slow = append(found.slow, node)
				}
				break
			}
			found.pods++
			found.byNode[node]++
			found.add(f, results[0])
		}
	}
	return found, nil
}

// add counts what a pod got.
func (found *filled) add(f *filler, r placement.Result) {
	for _, claim := range r.Claims {
		if r.Kept(claim) {
			continue
		}
		for _, d := range claim.Status.Allocation.Devices.Results {
			id := placement.PoolID{Driver: d.Driver, Name: d.Pool}
			found.independent = found.independent && f.local[id] != ""
			found.simple = found.simple && !f.counters[id] && d.ShareID == nil
		}
	}
}

// shares reports whether all pods use one claim that is not allocated: the first decides where
// the others can be.
func (f *filler) shares() bool {
	return slices.ContainsFunc(f.pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		if c.ResourceClaimName == nil {
			return false
		}
		claim := f.base.Claim(f.pod.Namespace, *c.ResourceClaimName)
		return claim != nil && claim.Status.Allocation == nil
	})
}

// fixed reports whether what fits on one node does not depend on the order in which the
// scheduler looks at its devices. From 1.36 on, it is always the same.
func (f *filler) fixed(found filled) bool {
	if !f.Unordered {
		return true
	}
	if !found.simple || len(f.pod.Spec.ResourceClaims) != 1 || f.pod.Spec.ResourceClaims[0].ResourceClaimTemplateName == nil {
		return false
	}
	for _, template := range f.Cluster.Templates {
		if template.Name == *f.pod.Spec.ResourceClaims[0].ResourceClaimTemplateName && template.Namespace == f.pod.Namespace {
			devices := template.Spec.Spec.Devices
			return len(devices.Constraints) == 0 && len(devices.Requests) == 1 && devices.Requests[0].Exactly != nil
		}
	}
	return false
}

// vary places the pods in other orders: in all of them if they are few, otherwise in some.
func (f *filler) vary(ctx context.Context, r *Room, found filled) error {
	if f.Unordered && !found.simple {
		r.Notes = append(r.Notes, "kube-scheduler before 1.36 looks at pools in any order: another number is possible")
	}
	e := &explorer{filler: f, seen: map[string]bool{}, least: r.Least, most: r.Most, left: f.budget}
	if err := e.explore(ctx, f.base, nil); err != nil {
		return err
	}
	r.Least, r.Most, r.Orders = e.least, e.most, r.Orders+e.orders
	r.Proven = e.left > 0 && !f.Unordered
	if r.Proven {
		return nil
	}
	for seed := uint64(1); seed <= 16 && f.budget > 0; seed++ {
		s := f.base.Clone()
		s.ByChance(seed)
		n := 0
		for ; n < MaxPods; n++ {
			results, err := s.Place(ctx, f.replica(""))
			if err != nil {
				return err
			}
			if f.budget--; results[0].Reason.Kind == placement.Slow {
				return nil
			}
			if !results[0].Lands() {
				break
			}
		}
		r.Least, r.Most, r.Orders = min(r.Least, n), max(r.Most, n), r.Orders+1
	}
	return nil
}

// An explorer tries all orders of nodes.
type explorer struct {
	*filler
	// seen are states: what each node has got.
	seen        map[string]bool
	least, most int
	orders      int
	left        int
}

// explore places the next pod on each node on which it fits. placed are what the pods so far
// have.
func (e *explorer) explore(ctx context.Context, s *placement.Simulation, placed []string) error {
	full := true
	for _, node := range e.nodes {
		if e.left--; e.left <= 0 {
			return ctx.Err()
		}
		next := s.Clone()
		results, err := next.Place(ctx, e.replica(node))
		if err != nil {
			return err
		}
		if results[0].Reason.Kind == placement.Slow {
			e.left = 0 // more can fit: nothing is proven
			return nil
		}
		if !results[0].Lands() {
			continue
		}
		full = false
		now := append(slices.Clone(placed), textOf(results[0]))
		slices.Sort(now)
		if key := strings.Join(now, "\n"); !e.seen[key] {
			e.seen[key] = true
			if err := e.explore(ctx, next, now); err != nil || e.left <= 0 {
				return err
			}
		}
	}
	if full {
		e.orders++
		e.least, e.most = min(e.least, len(placed)), max(e.most, len(placed))
	}
	return nil
}

// textOf is the node and the devices of a pod.
func textOf(r placement.Result) string {
	devices := map[string]bool{}
	for _, claim := range r.Claims {
		for _, name := range placement.DeviceNames(claim) {
			devices[name] = true
		}
	}
	return r.Node + " " + strings.Join(slices.Sorted(maps.Keys(devices)), ",")
}

// rooms are the nodes that have room.
func (f *filler) rooms(of filled) []NodeRoom {
	rooms := []NodeRoom{}
	for _, node := range f.nodes {
		if n := of.byNode[node]; n > 0 {
			rooms = append(rooms, NodeRoom{Node: node, Pods: n})
		}
	}
	return rooms
}
