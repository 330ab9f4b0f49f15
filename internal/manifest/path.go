package manifest

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// finder follows a path through a tree. It matches what is there against the
// path instead of taking the path apart, because keys and names may hold dots
// and brackets.
type finder struct {
	// v1beta1 makes paths of v1 lead through a document of v1beta1.
	v1beta1 bool
}

// step is one step along a path: the value, its position, and the rest of the
// path.
type step struct {
	value, at *yaml.Node
	rest      string
}

func (f finder) step(node *yaml.Node, path string) (step, bool) {
	node = follow(node)
	switch {
	case node == nil:
		return step{}, false
	case node.Kind == yaml.SequenceNode:
		return itemStep(node, path)
	case node.Kind != yaml.MappingNode:
		return step{}, false
	}
	if found, ok := fieldStep(node, path); ok {
		return found, true
	}
	if !f.v1beta1 {
		return step{}, false
	}
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "."), "exactly"); ok && atBoundary(rest) {
		return step{value: node, at: node, rest: rest}, rest == "" || strings.HasPrefix(rest, ".")
	}
	if _, basic := field(node, "basic"); basic != nil && follow(basic).Kind == yaml.MappingNode {
		return fieldStep(follow(basic), path)
	}
	return step{}, false
}

// fieldStep enters the field or map entry with the longest key that the path
// begins with, plainly or in brackets.
func fieldStep(node *yaml.Node, path string) (step, bool) {
	inBrackets := strings.HasPrefix(path, "[")
	if inBrackets {
		path = path[1:]
	} else {
		path = strings.TrimPrefix(path, ".")
	}
	best, longest := step{}, -1
	entries(node, func(key string, at, value *yaml.Node) {
		rest, ok := strings.CutPrefix(path, key)
		if ok && inBrackets {
			rest, ok = strings.CutPrefix(rest, "]")
		}
		if ok && atBoundary(rest) && len(key) >= longest {
			best, longest = step{value: value, at: at, rest: rest}, len(key)
		}
	})
	return best, longest >= 0
}

// itemStep enters the item that "[index]", "[name]" or "[name=name]" means.
func itemStep(node *yaml.Node, path string) (step, bool) {
	path, ok := strings.CutPrefix(path, "[")
	if !ok {
		return step{}, false
	}
	selector, rest, ok := strings.Cut(path, "]")
	if !ok {
		return step{}, false
	}
	if i, err := strconv.Atoi(selector); err == nil {
		if i < 0 || i >= len(node.Content) {
			return step{}, false
		}
		return step{value: node.Content[i], at: node.Content[i], rest: rest}, true
	}
	path = strings.TrimPrefix(path, "name=")
	for _, item := range node.Content {
		_, name := field(follow(item), "name")
		if name = follow(name); name == nil || name.Kind != yaml.ScalarNode || name.Value == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(path, name.Value+"]"); ok && atBoundary(rest) {
			return step{value: item, at: item, rest: rest}, true
		}
	}
	return step{}, false
}

// atBoundary reports whether a path may go on with rest after a key.
func atBoundary(rest string) bool {
	return rest == "" || rest[0] == '.' || rest[0] == '['
}

// field returns the key and value of a field that a mapping has, nil if it has
// none; the last one if it has several.
func field(node *yaml.Node, name string) (key, value *yaml.Node) {
	node = follow(node)
	if node == nil || node.Kind != yaml.MappingNode {
		return nil, nil
	}
	entries(node, func(text string, at, found *yaml.Node) {
		if text == name {
			key, value = at, found
		}
	})
	return key, value
}

// entries visits the entries of a mapping in the order in which the conversion
// to JSON sets them: merged mappings where they are merged.
func entries(node *yaml.Node, visit func(key string, at, value *yaml.Node)) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Tag == "!!merge" {
			merge(follow(value), visit)
			continue
		}
		visit(keyText(key), key, value)
	}
}

func merge(node *yaml.Node, visit func(key string, at, value *yaml.Node)) {
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		entries(node, visit)
	case node.Kind == yaml.SequenceNode:
		for i := len(node.Content) - 1; i >= 0; i-- {
			if item := follow(node.Content[i]); item.Kind == yaml.MappingNode {
				entries(item, visit)
			}
		}
	}
}

// follow returns the value of an alias, and any other node itself.
func follow(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// keyText returns the key as it is in the JSON object: plain YAML keys such as
// yes, 0x10 and 1.0 are not what they look like.
func keyText(key *yaml.Node) string {
	key = follow(key)
	if !converts(key) {
		return key.Value
	}
	raw, err := sigsyaml.YAMLToJSON([]byte(key.Value + ": 0"))
	var object map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &object) != nil {
		return key.Value
	}
	for text := range object {
		return text
	}
	return key.Value
}

func converts(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Style&^yaml.FlowStyle == 0 && mayBeConverted(key.Value)
}

// mayBeConverted reports whether a plain scalar may be something else than a
// string in YAML 1.1.
func mayBeConverted(text string) bool {
	if text == "" || len(text) > 64 {
		return false
	}
	if strings.IndexByte("+-.0123456789~", text[0]) >= 0 {
		return true
	}
	switch strings.ToLower(text) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
