package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Value is an attribute or a capacity of a device.
type Value struct {
	Name     string
	Capacity bool
	// Published is what the driver says, Now what it is with patches; empty for none.
	Published, Now string
	// Patch decides, Suppressed are others that set the same name.
	Patch      string
	Suppressed []string
}

// A Taint is a taint of a device with its source.
type Taint struct {
	resourceapi.DeviceTaint
	Source tracker.Source
	// Drain is the drain whose cordon it is, empty for none.
	Drain string
	// Since is when it was added, Until when its rule expires; the zero time is not known or never.
	Since, Until time.Time
	// Annotations are those of the rule that are its owner's.
	Annotations []Pair
}

// A Pair is a key with a value.
type Pair struct{ Key, Value string }

// A Holder is a claim that has a device.
type Holder struct {
	Namespace, Claim string
	// Owner is what owns the claim, as Kind/name, Pods are the pods for which it is reserved.
	Owner string
	Pods  []string
	// Request is that of the claim.
	Request string
	// Since is when the claim was allocated, the zero time if that is not known.
	Since time.Time
}

// A Detail is all that is known about one device.
type Detail struct {
	*Device
	Slice      string
	Generation int64
	Values     []Value
	Taints     []Taint
	Holders    []Holder
	// Siblings share counters with it.
	Siblings []usage.DeviceID
	// Labels are those of its node.
	Labels []Pair
}

// Detail returns what is known about a device.
func (f *Fleet) Detail(d *Device) Detail {
	slice := d.tracker.Slice()
	detail := Detail{Device: d, Slice: slice.Name, Generation: slice.Spec.Pool.Generation, Values: valuesOf(d.tracker), Holders: holdersOf(d)}
	for _, taint := range d.tracker.Taints() {
		detail.Taints = append(detail.Taints, f.taintOf(taint))
	}
	detail.Siblings = siblings.Of(slices.Values(f.Input.View.PublishedByPool(d.ID.Driver, d.ID.Pool)), slices.Values([]usage.DeviceID{d.ID}))
	if node := f.nodes[d.Node]; node != nil {
		detail.Labels = pairs(node.Labels, func(string) bool { return true })
	}
	return detail
}

// valuesOf are the attributes and capacities of a device, by name.
func valuesOf(d tracker.Device) (all []Value) {
	type key struct {
		name     string
		capacity bool
	}
	byKey := map[key]*Value{}
	at := func(name resourceapi.QualifiedName, capacity bool) *Value {
		k := key{string(name), capacity}
		if byKey[k] == nil {
			byKey[k] = &Value{Name: k.name, Capacity: capacity}
		}
		return byKey[k]
	}
	for name, value := range d.Published().Attributes {
		at(name, false).Published = printable.Attribute(value)
	}
	for name, value := range d.Merged().Attributes {
		at(name, false).Now = printable.Attribute(value)
	}
	for name, value := range d.Published().Capacity {
		at(name, true).Published = value.Value.String()
	}
	for name, value := range d.Merged().Capacity {
		at(name, true).Now = value.Value.String()
	}
	for patched := range d.Patched() {
		v := at(patched.Spelling, patched.Name.Capacity)
		v.Patch = patched.Winner.Object.Name
		for _, other := range patched.Suppressed {
			v.Suppressed = append(v.Suppressed, other.Object.Name)
		}
	}
	for _, v := range byKey {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b Value) int {
		if a.Capacity != b.Capacity {
			if b.Capacity {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// taintOf finds where a taint comes from.
func (f *Fleet) taintOf(taint tracker.Taint) Taint {
	t := Taint{DeviceTaint: taint.DeviceTaint, Source: taint.Source}
	if taint.TimeAdded != nil {
		t.Since = taint.TimeAdded.Time
	}
	if taint.Source.Kind != tracker.RuleSource {
		return t
	}
	rule := f.Input.View.Rule(taint.Source.Name)
	if rule == nil {
		return t
	}
	t.Drain, _ = drain.OwnerOf(rule)
	if until, err := time.Parse(time.RFC3339, rule.Annotations[v1alpha1.ExpiresAnnotation]); err == nil {
		t.Until = until
	}
	t.Annotations = pairs(rule.Annotations, func(key string) bool {
		return key != corev1.LastAppliedConfigAnnotation && key != drain.UIDAnnotation && key != v1alpha1.ExpiresAnnotation
	})
	return t
}

// maxPairs bounds the labels or annotations that are shown.
const maxPairs = 64

// pairs are labels or annotations by their keys.
func pairs(of map[string]string, keep func(key string) bool) (all []Pair) {
	for key, value := range of {
		if keep(key) {
			all = append(all, Pair{key, value})
		}
	}
	slices.SortFunc(all, func(a, b Pair) int { return cmp.Compare(a.Key, b.Key) })
	return all[:min(len(all), maxPairs)]
}

// holdersOf are the claims of a device, each once.
func holdersOf(d *Device) (all []Holder) {
	seen := map[*resourceapi.ResourceClaim]bool{}
	for _, claim := range d.Claims {
		if seen[claim] {
			continue
		}
		seen[claim] = true
		h := Holder{Namespace: claim.Namespace, Claim: claim.Name}
		if owner := metav1.GetControllerOf(claim); owner != nil {
			h.Owner = owner.Kind + "/" + owner.Name
		}
		for _, user := range claim.Status.ReservedFor {
			if user.APIGroup == "" && user.Resource == "pods" {
				h.Pods = append(h.Pods, user.Name)
			}
		}
		if allocation := claim.Status.Allocation; allocation != nil {
			if allocation.AllocationTimestamp != nil {
				h.Since = allocation.AllocationTimestamp.Time
			}
			for _, r := range allocation.Devices.Results {
				if r.Driver == d.ID.Driver && r.Pool == d.ID.Pool && r.Device == d.ID.Device {
					h.Request = r.Request
				}
			}
		}
		all = append(all, h)
	}
	return all
}
