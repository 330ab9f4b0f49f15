package fleet

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// MaxQuery is the most bytes that a query has, and maxTerms the most words.
const (
	MaxQuery = 1024
	maxTerms = 16
)

// A Query selects devices: all of its terms are true for a device. The zero value selects all.
type Query struct{ terms []term }

// A term matches one field, or any if field is empty; not negates it.
type term struct {
	field, value string
	not          bool
}

// Fields are the fields of a query.
func Fields() []string {
	return []string{"node", "driver", "pool", "device", "model", "namespace", "claim", "taint", "state", "zone", "label", "attribute"}
}

// ParseQuery reads words such as "gpu-3", "node:rack7", "state:noexecute" or
// "attribute:model=A100"; "-" before a word excludes what it matches.
func ParseQuery(text string) (q Query, _ error) {
	if len(text) > MaxQuery {
		return q, fmt.Errorf("search: must have at most %d bytes", MaxQuery)
	}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		if len(q.terms) == maxTerms {
			return Query{}, fmt.Errorf("search: must have at most %d words", maxTerms)
		}
		t := term{value: word}
		if rest, not := strings.CutPrefix(word, "-"); not && rest != "" {
			t.not, t.value = true, rest
		}
		if field, value, has := strings.Cut(t.value, ":"); has && slices.Contains(Fields(), field) {
			t.field, t.value = field, value
		}
		q.terms = append(q.terms, t)
	}
	return q, nil
}

// Empty reports whether the query selects all devices.
func (q Query) Empty() bool { return len(q.terms) == 0 }

// Select returns the indexes of the devices that a query selects.
func (f *Fleet) Select(q Query) []int {
	selected := make([]int, 0, len(f.Devices))
	for i := range f.Devices {
		if q.matches(f, &f.Devices[i]) {
			selected = append(selected, i)
		}
	}
	return selected
}

func (q Query) matches(f *Fleet, d *Device) bool {
	return !slices.ContainsFunc(q.terms, func(t term) bool { return t.matches(f, d) == t.not })
}

// matches reports whether a term is true for a device.
func (t term) matches(f *Fleet, d *Device) bool {
	switch t.field {
	case "":
		return t.in(d.Node, d.ID.Driver, d.ID.Pool, d.ID.Device, d.Model) || t.claims(d, true, true)
	case "node":
		return t.in(d.Node)
	case "driver":
		return t.in(d.ID.Driver)
	case "pool":
		return t.in(d.ID.Pool)
	case "device":
		return t.in(d.ID.Device)
	case "model":
		return t.in(d.Model)
	case "namespace":
		return t.claims(d, true, false)
	case "claim":
		return t.claims(d, false, true)
	case "state":
		return t.value == d.State.Fill.String() || t.value == d.State.Mark.String() || t.value == "tainted" && (d.State.Mark == NoSchedule || d.State.Mark == NoExecute)
	case "taint":
		return slices.ContainsFunc(d.Taints(), func(taint resourceapi.DeviceTaint) bool {
			return t.in(taint.Key+"="+taint.Value+":"+string(taint.Effect), taint.Key+":"+string(taint.Effect))
		})
	case "zone":
		node := f.nodes[d.Node]
		return node != nil && t.in(node.Labels[corev1.LabelTopologyZone])
	case "label":
		node := f.nodes[d.Node]
		return node != nil && t.pairs(node.Labels)
	}
	for name, value := range d.tracker.Merged().Attributes {
		if t.in(string(name) + "=" + printable.Attribute(value)) {
			return true
		}
	}
	return false
}

// in reports whether a text contains the value, without regard to case.
func (t term) in(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), t.value) })
}

func (t term) claims(d *Device, namespaces, names bool) bool {
	return slices.ContainsFunc(d.Claims, func(claim *resourceapi.ResourceClaim) bool {
		return namespaces && t.in(claim.Namespace) || names && t.in(claim.Name)
	})
}

func (t term) pairs(labels map[string]string) bool {
	for key, value := range labels {
		if t.in(key + "=" + value) {
			return true
		}
	}
	return false
}

// Taints are those of a device, from its driver and from rules.
func (d *Device) Taints() []resourceapi.DeviceTaint { return d.tracker.Merged().Taints }

// Rules yields the names of the DeviceTaintRules that taint a device.
func (d *Device) Rules() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, taint := range d.tracker.Taints() {
			if taint.Source.Kind == tracker.RuleSource && !yield(taint.Source.Name) {
				return
			}
		}
	}
}
