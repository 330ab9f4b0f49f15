package fleet

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/internal/text/natural"
)

// A Group is devices with the same value of what the map is grouped by.
type Group struct {
	Name string
	Rows []Row
	// Devices counts the devices of the rows.
	Devices int
}

// A Row is the devices of a node in one group. Its name is empty for devices of several nodes.
type Row struct {
	Node    string
	Devices []int
}

// Groupings are what the map can be grouped by, apart from "label:KEY".
func Groupings() []string { return []string{"zone", "pool", "driver", "model", "namespace", "none"} }

// labelPrefix begins a grouping by a label of nodes.
const labelPrefix = "label:"

// maxLabel is the most bytes of a label's key: those of the prefix, a slash and the name.
const maxLabel = 253 + 1 + 63

// Grouping returns a grouping that exists: by is one, or it is by zone.
func Grouping(by string) string {
	if slices.Contains(Groupings(), by) || strings.HasPrefix(by, labelPrefix) && len(by) > len(labelPrefix) && len(by) <= len(labelPrefix)+maxLabel {
		return by
	}
	return Groupings()[0]
}

// Group puts devices, by their indexes, into groups and these into rows, both in the order of their
// names. Devices without a name of the kind are in the last group, without a name.
func (f *Fleet) Group(selected []int, by string) []Group {
	by = Grouping(by)
	at := map[string]int{}
	var groups []Group
	for _, i := range selected {
		name := f.groupOf(&f.Devices[i], by)
		g, known := at[name]
		if !known {
			g = len(groups)
			at[name] = g
			groups = append(groups, Group{Name: name})
		}
		groups[g].add(f.Devices[i].Node, i)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		if (a.Name == "") != (b.Name == "") {
			return cmp.Compare(len(b.Name), len(a.Name))
		}
		return natural.Compare(a.Name, b.Name)
	})
	return groups
}

// add adds a device; those of a node follow each other.
func (g *Group) add(node string, device int) {
	g.Devices++
	if n := len(g.Rows); n > 0 && g.Rows[n-1].Node == node {
		g.Rows[n-1].Devices = append(g.Rows[n-1].Devices, device)
		return
	}
	g.Rows = append(g.Rows, Row{Node: node, Devices: []int{device}})
}

func (f *Fleet) groupOf(d *Device, by string) string {
	switch by {
	case "none":
		return ""
	case "pool":
		return d.ID.Driver + "/" + d.ID.Pool
	case "driver":
		return d.ID.Driver
	case "model":
		return d.Model
	case "namespace":
		if len(d.Claims) == 0 {
			return ""
		}
		return d.Claims[0].Namespace
	}
	node := f.nodes[d.Node]
	if node == nil {
		return ""
	}
	if label, is := strings.CutPrefix(by, labelPrefix); is {
		return node.Labels[label]
	}
	return node.Labels[corev1.LabelTopologyZone]
}
