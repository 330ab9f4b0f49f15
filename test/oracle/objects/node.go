package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// parse reads JSON into a tree whose numbers keep their digits.
func parse(data []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object map[string]any
	return object, decoder.Decode(&object)
}

// A node is a value in a tree, with the way to it.
type node struct {
	path   []any // field names and indexes
	value  any
	parent any
	set    func(value any)
	remove func()
}

// nodes lists what lies below a value, in a stable order. The type of the object
// stays as it is.
func nodes(object map[string]any) (list []node) {
	walk(nil, object, func(any) {}, func(n node) { list = append(list, n) })
	return list
}

func walk(path []any, value any, replace func(any), visit func(node)) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if len(path) == 0 && (name == "apiVersion" || name == "kind") {
				continue
			}
			below := append(slices.Clone(path), name)
			set := func(v any) { value[name] = v }
			visit(node{below, value[name], value, set, func() { delete(value, name) }})
			walk(below, value[name], set, visit)
		}
	case []any:
		for i := range value {
			below := append(slices.Clone(path), i)
			set := func(v any) { value[i] = v }
			visit(node{below, value[i], value, set, func() {
				replace(slices.Delete(slices.Clone(value), i, i+1))
			}})
			walk(below, value[i], set, visit)
		}
	}
}

// last is the last field name on the way to a node.
func (n node) last() string {
	for _, step := range slices.Backward(n.path) {
		if name, is := step.(string); is {
			return name
		}
	}
	return ""
}

// follow puts value into object at path, as far as the way exists.
func follow(object any, path []any, value any) bool {
	for depth, step := range path {
		switch at := object.(type) {
		case map[string]any:
			name, is := step.(string)
			if !is {
				return false
			}
			if depth == len(path)-1 {
				at[name] = value
				return true
			}
			object = at[name]
		case []any:
			index, is := step.(int)
			if !is || len(at) == 0 {
				return false
			}
			index = min(index, len(at)-1)
			if depth == len(path)-1 {
				at[index] = value
				return true
			}
			object = at[index]
		default:
			return false
		}
	}
	return false
}

// clone copies a tree.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, below := range value {
			copied[name] = clone(below)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, below := range value {
			copied[i] = clone(below)
		}
		return copied
	default:
		return value
	}
}

func number(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
