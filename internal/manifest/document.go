package manifest

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is one Kubernetes object of a file.
type Document struct {
	// File is the name of the file as it was given to the [Reader], "<stdin>"
	// for standard input.
	File string
	// Index is the number of the object in its file, counted from 1. The items
	// of a list count one by one; what could not be read counts as one.
	Index int
	// Line is the line of the file, counted from 1, on which the object begins.
	Line int
	// APIVersion, Kind, Namespace and Name are what the object says of itself,
	// empty where it says nothing. An item of a typed list (ResourceClaimList)
	// has the type that the list implies.
	APIVersion, Kind, Namespace, Name string
	// Raw is the object in JSON, as the API server would see it.
	Raw []byte

	source *source
	// items leads from the root of source to the object: an index per list.
	items []int
}

// Position returns the position of the value at path, counted from 1: the
// key of a field or map entry, the first character of a list's item. If there
// is no such value it is the position of the deepest of its ancestors that
// exists. The path is written as [k8s.io/apimachinery/pkg/util/validation/field]
// writes it, with map keys in brackets:
//
//	spec.devices.requests[0].exactly.tolerations[2].key
//	metadata.labels[example.com/team]
//
// A list's item may also be named by the value of its field "name":
// spec.devices[gpu-0], or spec.devices[name=0] where the name looks like a
// number. In a document of resource.k8s.io/v1beta1 the paths of v1 lead to
// where that version keeps the value. Aliases and merge keys are followed to
// where the value is written.
//
// Position may be called by several goroutines at once.
func (d *Document) Position(path string) (line, column int) {
	if d.root() == nil {
		return max(d.Line, 1), 1
	}
	_, at, _ := d.find(path)
	return at.Line, at.Column
}

// find returns the value at path and its position, or those of the deepest
// ancestor that exists, and the rest of the path there. The document has a root.
func (d *Document) find(path string) (value, at *yaml.Node, rest string) {
	value = d.root()
	at, rest = value, path
	finder := finder{v1beta1: strings.HasSuffix(d.APIVersion, "/v1beta1")}
	for rest != "" {
		step, ok := finder.step(value, rest)
		if !ok {
			break
		}
		value, at, rest = step.value, step.at, step.rest
	}
	return value, at, rest
}

// root returns the node of the object, nil if positions are not known.
func (d *Document) root() *yaml.Node {
	if d.source == nil {
		return nil
	}
	node := d.source.root()
	for _, i := range d.items {
		_, items := field(node, "items")
		items = follow(items)
		if items == nil || i >= len(items.Content) {
			return nil
		}
		node = follow(items.Content[i])
	}
	return node
}

// listTwice returns the position of a second key "items".
func (d *Document) listTwice() (line, column int, twice bool) {
	root := follow(d.root())
	if root == nil || root.Kind != yaml.MappingNode {
		return 0, 0, false
	}
	found := false
	for i := 0; i+1 < len(root.Content); i += 2 {
		if keyText(root.Content[i]) != "items" {
			continue
		}
		if found {
			return root.Content[i].Line, root.Content[i].Column, true
		}
		found = true
	}
	return 0, 0, false
}
