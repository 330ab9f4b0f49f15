package taints

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Scope is what names of targets can refer to.
type Scope struct {
	// View has the published devices, Index the claims and pods.
	View  *tracker.Snapshot
	Index *usage.Index
	// Names are the devices that can be named in full, or by the end of their name.
	Names iter.Seq[usage.DeviceID]
	// Namespace is that of claims and pods.
	Namespace string
}

// Kinds returns the kinds of targets, by each name that kubectl has for them.
func Kinds() map[string]string {
	return map[string]string{
		"node": "node", "nodes": "node", "no": "node", "driver": "driver", "drivers": "driver",
		"claim": "claim", "claims": "claim", "resourceclaim": "claim", "resourceclaims": "claim", "resourceclaims.resource.k8s.io": "claim",
		"pod": "pod", "pods": "pod", "po": "pod",
	}
}

// IsDrain reports whether a word is one of the names that kubectl has for the type DeviceDrain.
func IsDrain(kind string) bool {
	return slices.Contains([]string{"devicedrain", "devicedrains", "ddrain", "devicedrain." + v1alpha1.Group, "devicedrains." + v1alpha1.Group}, kind)
}

// Arguments joins TYPE NAME... to TYPE/NAME..., as kubectl reads them.
func Arguments(args []string) []string {
	if len(args) < 2 || Kinds()[args[0]] == "" {
		return args
	}
	var joined []string
	for _, name := range args[1:] {
		joined = append(joined, args[0]+"/"+name)
	}
	return joined
}

// Resolve finds the targets that a name means: node/NAME, driver/NAME, claim/NAME, pod/NAME,
// or the name of a device, a pool or a driver.
func (s Scope) Resolve(name string) ([]Target, error) {
	kind, rest, _ := strings.Cut(name, "/")
	kind = Kinds()[kind]
	if kind == "" || rest == "" || strings.Contains(rest, "/") {
		target, err := s.target(name)
		return []Target{target}, err
	}
	switch kind {
	case "driver":
		target, err := Resolve(rest, s.Names)
		if err != nil || target != (Target{Driver: rest}) {
			return nil, fmt.Errorf("no driver %q publishes devices", rest)
		}
		return []Target{target}, nil
	case "node":
		return s.OfNodes(rest)
	case "claim":
		return s.ofClaim(rest)
	default:
		return s.ofPod(rest)
	}
}

// Device finds the device that a name means, also one in full, DRIVER/POOL/DEVICE, that is not
// among the names. It refuses pools and drivers.
func (s Scope) Device(name string) (id usage.DeviceID, known bool, _ error) {
	target, err := s.target(name)
	first, last := strings.Index(name, "/"), strings.LastIndex(name, "/")
	switch inFull := first > 0 && first < last; {
	case err == nil && target.Device == "":
		return id, false, fmt.Errorf("%q is not a device, but all devices of %s", name, target)
	case err == nil:
		return usage.DeviceID(target), true, nil
	case inFull && errors.As(err, new(unknownError)):
		return usage.DeviceID{Driver: name[:first], Pool: name[first+1 : last], Device: name[last+1:]}, false, nil
	}
	return id, false, err
}

// target finds the device, pool or driver that a name means.
func (s Scope) target(name string) (Target, error) {
	target, err := Resolve(name, s.Names)
	if meant := s.meant(name); err != nil && meant != "" {
		err = unknownError(fmt.Sprintf("no device, pool or driver %q: %s", name, meant))
	}
	return target, err
}

// meant says how to write what a name means that no device, pool or driver has: that of a node, a claim or a
// pod without its type, or labels of nodes. It is empty if the name means none of these.
func (s Scope) meant(name string) string {
	requirements, err := labels.ParseToRequirements(name)
	switch {
	case err == nil && strings.ContainsAny(name, "=(") && len(requirements) > 0:
		return fmt.Sprintf("for the labels of nodes, use -l '%s'", name)
	case s.hasNode(name):
		return "for the devices of the node, use node/" + name
	case s.Index == nil:
	case s.Index.Claim(s.Namespace, name) != nil:
		return "for the devices of the claim, use claim/" + name
	case s.Index.Pod(s.Namespace, name) != nil:
		return "for the devices of the pod, use pod/" + name
	}
	return ""
}

func (s Scope) hasNode(name string) bool {
	for d := range s.View.Devices() {
		if NodeOf(d) == name {
			return true
		}
	}
	return false
}

// OfNodes returns the devices that are on one of the nodes alone: a pool as a whole if all of
// its devices are.
func (s Scope) OfNodes(nodes ...string) ([]Target, error) {
	in, out, wanted := map[Target][]Target{}, map[Target]bool{}, map[string]bool{}
	for _, node := range nodes {
		wanted[node] = true
	}
	for d := range s.View.Devices() {
		pool := Target{Driver: d.Driver(), Pool: d.Pool()}
		if wanted[NodeOf(d)] {
			in[pool] = append(in[pool], Target{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()})
		} else {
			out[pool] = true
		}
	}
	if len(in) == 0 {
		return nil, fmt.Errorf("no device is published for node %s", strings.Join(nodes, ", "))
	}
	var found []Target
	for _, pool := range slices.SortedFunc(maps.Keys(in), compare) {
		if out[pool] {
			found = append(found, in[pool]...)
		} else {
			found = append(found, pool)
		}
	}
	return found, nil
}

// NodeOf returns the node of a device, "" if it is not on one node alone.
func NodeOf(d tracker.Device) string {
	for _, name := range []*string{d.Published().NodeName, d.Slice().Spec.NodeName} {
		if name != nil {
			return *name
		}
	}
	return ""
}

func (s Scope) ofClaim(name string) (found []Target, _ error) {
	claim := s.Index.Claim(s.Namespace, name)
	if claim == nil {
		return nil, fmt.Errorf("no allocated claim %q in namespace %q", name, s.Namespace)
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		found = append(found, Target{Driver: result.Driver, Pool: result.Pool, Device: result.Device})
	}
	return unique(found), nil
}

func (s Scope) ofPod(name string) (found []Target, _ error) {
	of := types.NamespacedName{Namespace: s.Namespace, Name: name}
	if s.Index.Pod(of.Namespace, of.Name) == nil {
		return nil, fmt.Errorf("no pod %q with claims in namespace %q", name, s.Namespace)
	}
	for _, id := range s.Index.Devices(of.Namespace, of.Name) {
		found = append(found, Target(id))
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("pod %s has no devices", of)
	}
	return unique(found), nil
}

// unique sorts targets, each once.
func unique(found []Target) []Target {
	slices.SortFunc(found, compare)
	return slices.Compact(found)
}

// Devices returns the devices of targets among those that are published.
func (s Scope) Devices(found []Target) (ids []usage.DeviceID) {
	wide := map[Target]bool{} // pools and drivers
	for _, t := range found {
		if t.Device != "" {
			ids = append(ids, usage.DeviceID(t))
		} else {
			wide[t] = true
		}
	}
	for d := range s.View.Devices() {
		if wide[Target{Driver: d.Driver()}] || wide[Target{Driver: d.Driver(), Pool: d.Pool()}] {
			ids = append(ids, usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()})
		}
	}
	slices.SortFunc(ids, func(a, b usage.DeviceID) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
	})
	return slices.Compact(ids)
}

// Siblings returns the published devices that share counters with those of the targets, and
// belong to no target.
func (s Scope) Siblings(found []Target) (targets []Target) {
	for _, id := range siblings.Of(s.View.PublishedSlices(), slices.Values(s.Devices(found))) {
		if !slices.ContainsFunc(found, func(t Target) bool { return t.Has(id) }) {
			targets = append(targets, Target(id))
		}
	}
	return targets
}
