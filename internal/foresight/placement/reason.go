package placement

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// A Kind names the reason why a pod does not land in one word.
type Kind string

const (
	// ClaimMissing: a claim that the pod names does not exist.
	ClaimMissing Kind = "ClaimMissing"
	// TemplateMissing: the ResourceClaimTemplate does not exist.
	TemplateMissing Kind = "TemplateMissing"
	// ClassMissing: a DeviceClass does not exist.
	ClassMissing Kind = "ClassMissing"
	// ClaimInUse: no more pods can use the claim.
	ClaimInUse Kind = "ClaimInUse"
	// SelectorError: a selector fails, and kube-scheduler stops.
	SelectorError Kind = "SelectorError"
	// Slow: the search for devices, or a selector, takes too long.
	Slow Kind = "Slow"
	// TooLarge: the pod or a claim is larger than is read.
	TooLarge Kind = "TooLarge"
	// Gang: the pods of the PodGroup do not all land.
	Gang Kind = "Gang"
	// NoNodes: there is no node.
	NoNodes Kind = "NoNodes"
	// Unschedulable, NodeTaint, NodeSelector, NodePorts, Resources and ClaimElsewhere are
	// about nodes: spec.unschedulable, taints of the node, node selector or affinity of the
	// pod, ports of the host, cpu, memory and the like, and a claim that is allocated on
	// another node.
	Unschedulable  Kind = "Unschedulable"
	NodeTaint      Kind = "NodeTaint"
	NodeSelector   Kind = "NodeSelector"
	NodePorts      Kind = "NodePorts"
	Resources      Kind = "Resources"
	ClaimElsewhere Kind = "ClaimElsewhere"
	// Volume: a PersistentVolumeClaim of the pod cannot be used. VolumeElsewhere: its volume is for other nodes.
	Volume          Kind = "Volume"
	VolumeElsewhere Kind = "VolumeElsewhere"
	// TopologySpread, PodAffinity and PodAntiAffinity are about the pods that run near a node.
	TopologySpread  Kind = "TopologySpread"
	PodAffinity     Kind = "PodAffinity"
	PodAntiAffinity Kind = "PodAntiAffinity"
	// Unchecked: what decides was not checked.
	Unchecked Kind = "Unchecked"
	// Devices: the nodes that remain do not have the devices. The others name what is in the
	// way: a constraint of the claim, other claims, a taint.
	Devices    Kind = "Devices"
	Constraint Kind = "Constraint"
	Taken      Kind = "Taken"
	Tainted    Kind = "Tainted"
	// Kept: the claim stays allocated to what the pod has left.
	Kept Kind = "Kept"
	// NoOwner: no controller creates the pod again.
	NoOwner Kind = "NoOwner"
	// NodeGone: the pod belongs to its node, which is away.
	NodeGone Kind = "NodeGone"
)

// nodeKinds are those about single nodes, in the order in which kube-scheduler looks: the
// later, the closer is the node.
func nodeKinds() []Kind {
	return []Kind{Unschedulable, NodeTaint, NodeSelector, NodePorts, Resources, VolumeElsewhere, TopologySpread, PodAffinity, PodAntiAffinity, ClaimElsewhere, Devices}
}

// A Reason is why a pod does not land.
type Reason struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// Nodes are how many of the nodes each kind excludes.
	Nodes map[Kind]int `json:"nodes,omitempty"`
	// Detail names what is in the way, such as the attribute of a constraint.
	Detail string `json:"detail,omitempty"`
	// Node is one that has the devices of the pod, and that Kind excludes.
	Node string `json:"node,omitempty"`
}

// String is the message.
func (r Reason) String() string { return r.Message }

// misses are the nodes where the pods of one kind do not fit.
type misses struct {
	// why has, for each node, 1 + the place in nodeKinds, 0 for a node that may fit.
	why     []uint8
	example map[Kind]string
	// count is how many nodes do not fit.
	count int
	// blamed is what was found to be in the way, at the version of the simulation.
	blamed  Reason
	version int
}

func (m *misses) add(i int, kind Kind, message string) {
	m.count++
	m.why[i] = uint8(1 + slices.Index(nodeKinds(), kind))
	if m.example[kind] == "" {
		m.example[kind] = message
	}
}

// mostMisses bounds the bytes of what is known of nodes: each pod can be of another kind.
const mostMisses = 16 << 20

// perKind is about what a kind takes apart from its nodes.
const perKind = 512

// missesOf returns what is known of pods of one kind.
func (s *Simulation) missesOf(key string, rest *rest) *misses {
	if rest.volatile() {
		return &misses{why: make([]uint8, len(s.nodes)), example: map[Kind]string{}}
	}
	m := s.misses[key]
	if m == nil {
		m = &misses{why: make([]uint8, len(s.nodes)), example: map[Kind]string{}}
		if (len(s.misses)+1)*(len(s.nodes)+perKind) <= mostMisses {
			s.misses[key] = m
		}
	}
	return m
}

// kindOf is equal for pods that fit on the same nodes.
func kindOf(pod *corev1.Pod, needs *needs) string {
	asked := struct {
		Name        string
		Selector    map[string]string
		Affinity    *corev1.Affinity
		Tolerations []corev1.Toleration
		Requests    amounts
		Ports       int
		Missing     []resourceapi.ResourceClaimSpec
		Allocated   []string
		Containers  []corev1.ResourceList
		Near        []any
	}{
		Name: pod.Spec.NodeName, Selector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations, Requests: needs.requests, Ports: len(portsOf(&pod.Spec)),
	}
	if pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil {
		asked.Affinity = &corev1.Affinity{NodeAffinity: pod.Spec.Affinity.NodeAffinity}
	}
	for _, claim := range needs.missing {
		spec := claim.Spec
		spec.Devices.Config = nil // it decides nothing
		asked.Missing = append(asked.Missing, spec)
	}
	for _, claim := range needs.allocated {
		asked.Allocated = append(asked.Allocated, nameOf(claim).String())
	}
	if needs.rest.near {
		asked.Near = []any{nameOf(pod).Namespace, pod.Labels, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints, pod.Spec.Volumes}
	}
	if len(needs.classes) > 0 {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			asked.Containers = append(asked.Containers, c.Resources.Requests)
		}
	}
	key, err := json.Marshal(asked)
	if err != nil || asked.Ports > 0 {
		return string(uidOf(pod))
	}
	sum := sha256.Sum256(key) // tenants write what is in it
	return string(sum[:])
}

// reason is why no node is suitable: of the nodes that come closest.
func (m *misses) reason(s *Simulation) Reason {
	if len(s.nodes) == 0 {
		return Reason{Kind: NoNodes, Message: "there is no node"}
	}
	r := Reason{Nodes: map[Kind]int{}}
	furthest := uint8(0)
	for _, why := range m.why {
		if furthest = max(furthest, why); why > 0 {
			r.Nodes[nodeKinds()[why-1]]++
		}
	}
	if furthest == 0 { // the pod names a node that does not exist
		return Reason{Kind: NoNodes, Message: "its node does not exist"}
	}
	r.Kind = nodeKinds()[furthest-1]
	r.Message = plural.Of(r.Nodes[r.Kind], "node") + ": " + cmp.Or(m.example[r.Kind], "no suitable device is free")
	for _, kind := range slices.Sorted(maps.Keys(r.Nodes)) {
		if kind != r.Kind {
			r.Message += fmt.Sprintf("; %s: %s", plural.Of(r.Nodes[kind], "node"), m.example[kind])
		}
	}
	return r
}

// blamed is on how many nodes it is tried what is in the way.
const blamed = 64

// blame finds what of devices is in the way, for all pods of a kind until another lands.
func (s *Simulation) blame(ctx context.Context, r *Result, needs *needs, seen *misses) error {
	if seen.blamed.Kind != "" && seen.version == s.version {
		r.Reason = seen.blamed
		return nil
	}
	err := s.nearest(ctx, r, needs, seen)
	if err == nil && r.Reason.Kind == Devices {
		err = s.search(ctx, r, needs, seen)
	}
	seen.blamed, seen.version = r.Reason, s.version
	return err
}

// nearest finds a node that has the devices: what else excludes it is the reason. Of several, what kube-scheduler looks at
// last.
func (s *Simulation) nearest(ctx context.Context, r *Result, needs *needs, seen *misses) error {
	left, nodes := max(s.most>>s.dear, fewest), 0
	last := uint8(0)
	for i, why := range seen.why {
		if why == 0 || nodes == blamed || nodeKinds()[why-1] == Devices || nodeKinds()[why-1] == ClaimElsewhere {
			continue
		}
		nodes++
		n := s.nodes[i]
		if len(needs.open(n))+len(needs.allocated) == 0 {
			continue // it has an extended resource without a claim
		}
		if slices.ContainsFunc(needs.allocated, func(claim *resourceapi.ResourceClaim) bool {
			on := claim.Status.Allocation.NodeSelector
			return on != nil && !Matches(n.Node, nil, nil, on)
		}) {
			continue
		}
		claims, _, err := s.on(ctx, n.Node, needs, &left)
		switch {
		case errors.Is(err, ErrStops), errors.Is(err, ErrSlow):
			return nil
		case err != nil:
			return err
		case claims == nil && len(needs.open(n)) > 0 || why <= last:
			continue
		}
		last = why
		kind, message := n.against(r.Pod, needs)
		r.Reason.Kind, r.Reason.Node, r.Reason.Message = kind, n.Name, "node "+n.Name+", which has the devices, "+message
	}
	return nil
}

// search finds what of devices is in the way: without it, the pod lands.
func (s *Simulation) search(ctx context.Context, r *Result, needs *needs, seen *misses) error {
	var nodes []*node
	for i, why := range seen.why {
		if why > 0 && nodeKinds()[why-1] == Devices && len(nodes) < blamed {
			nodes = append(nodes, s.nodes[i])
		}
	}
	empty, left := Allocated(func(func(*resourceapi.ResourceClaim) bool) {}, s.devices.Features), max(s.most>>s.dear, fewest)
	tries := []struct {
		kind    Kind
		message string
		change  func(a *Allocator, claims []*resourceapi.ResourceClaim) (string, bool)
	}{
		{Constraint, "devices are free, but not with the same or distinct", func(_ *Allocator, claims []*resourceapi.ResourceClaim) (string, bool) { return unconstrained(claims) }},
		{Taken, "all suitable devices are allocated", func(a *Allocator, _ []*resourceapi.ResourceClaim) (string, bool) { a.State = empty; return "", true }},
		{Tainted, "the suitable devices that are free have taints that are not tolerated", func(a *Allocator, _ []*resourceapi.ResourceClaim) (string, bool) {
			a.Features.DeviceTaints = false
			return "", true
		}},
		{Taken, "all suitable devices are allocated or have taints that are not tolerated", func(a *Allocator, _ []*resourceapi.ResourceClaim) (string, bool) {
			a.State, a.Features.DeviceTaints = empty, false
			return "", true
		}},
	}
	for _, try := range tries {
		for _, n := range nodes {
			allocator, claims := s.devices, slices.Clone(needs.open(n))
			allocator.Steps = &left
			detail, applies := try.change(&allocator, claims)
			if !applies || left < 0 {
				continue
			}
			results, _, err := allocator.On(ctx, n.Node, claims)
			if err != nil && !errors.Is(err, ErrStops) && !errors.Is(err, ErrSlow) {
				return err
			}
			if results != nil {
				r.Reason.Kind, r.Reason.Detail = try.kind, detail
				r.Reason.Message = strings.TrimSpace(try.message + " " + detail)
				return nil
			}
		}
	}
	if left < 0 {
		s.dear++
	}
	r.Reason.Message = plural.Of(r.Reason.Nodes[Devices], "node") + " without suitable devices"
	return nil
}

// unconstrained removes the constraints of claims, and returns what they are about.
func unconstrained(claims []*resourceapi.ResourceClaim) (detail string, any bool) {
	about := sets.New[string]()
	for i, claim := range claims {
		if len(claim.Spec.Devices.Constraints) == 0 {
			continue
		}
		for _, c := range claim.Spec.Devices.Constraints {
			for _, name := range []*resourceapi.FullyQualifiedName{c.MatchAttribute, c.DistinctAttribute} {
				if name != nil {
					about.Insert(string(*name))
				}
			}
		}
		changed := *claim
		changed.Spec.Devices.Constraints = nil
		claims[i] = &changed
	}
	return strings.Join(sets.List(about), ", "), len(about) > 0
}

// DeviceNames are the devices of a claim as driver/pool/device.
func DeviceNames(claim *resourceapi.ResourceClaim) (names []string) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		names = append(names, structured.MakeDeviceID(r.Driver, r.Pool, r.Device).String())
	}
	return names
}
