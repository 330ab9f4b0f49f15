package manifest

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// duplicates finds the keys that stand twice in one object of the document. What
// merge keys and aliases bring along is looked at where it is written.
func (e *explainer) duplicates(object any) {
	e.twice(e.document.root(), reflect.TypeOf(object).Elem(), "")
}

func (e *explainer) twice(node *yaml.Node, t reflect.Type, path string) {
	if node == nil {
		return
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			e.twice(item, elementType(t, reflect.Slice), fmt.Sprintf("%s[%d]", path, i))
		}
	case yaml.MappingNode:
		seen := map[string]*yaml.Node{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Tag == "!!merge" {
				continue
			}
			text := keyText(key)
			inner, at := childOf(t, path, text)
			if first := seen[text]; first != nil {
				e.problems = append(e.problems, Problem{Kind: DuplicateKey, Path: at, Line: key.Line, Column: key.Column,
					Message: fmt.Sprintf("duplicate key, first in line %d, of which the last one applies: remove one", first.Line)})
			} else {
				seen[text] = key
			}
			e.twice(value, inner, at)
		}
	}
}

// childOf returns type and path of an entry: in brackets if it belongs to a map,
// or if its object is of no known type and the key no identifier.
func childOf(t reflect.Type, path, key string) (reflect.Type, string) {
	if inner := elementType(t, reflect.Map); inner != nil {
		return inner, path + "[" + key + "]"
	}
	if t != nil && t.Kind() == reflect.Struct {
		return jsonFields(t)[key], join(path, key)
	}
	for _, c := range key {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return nil, path + "[" + key + "]"
		}
	}
	return nil, join(path, key)
}

// elementType returns what a type of this kind consists of, nil for others.
func elementType(t reflect.Type, kind reflect.Kind) reflect.Type {
	if t == nil || t.Kind() != kind {
		return nil
	}
	return t.Elem()
}
