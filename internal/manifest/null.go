package manifest

import (
	"go.yaml.in/yaml/v3"
)

// bareNull finds the first key that YAML reads as no key at all: a null without quotes. A
// ResourceSlicePatch has a field of that name. It returns nil without one.
func (s *source) bareNull() *Error {
	document, err := parseNodes(s.text)
	if err != nil {
		return nil
	}
	key, value := nullKey(&document)
	if key == nil {
		return nil
	}
	line, column := s.placer()(key.Line, key.Column)
	e := &Error{Line: line, Column: column, Message: "YAML reads a bare null as no key at all, and kubectl refuses it: write \"null\": {}"}
	switch {
	case key.Value == "": // written as nothing
	case value.Tag != "!!null" || value.Value != "":
		e.Old, e.New = key.Value, `"null"`
	default:
		e.Old, e.New = key.Value+":", `"null": {}`
	}
	return e
}

// nullKey returns the first key that is null, with its value.
func nullKey(node *yaml.Node) (key, value *yaml.Node) {
	if node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if k := node.Content[i]; k.Kind == yaml.ScalarNode && k.Tag == "!!null" {
				return k, node.Content[i+1]
			}
		}
	}
	for _, child := range node.Content {
		if key, value := nullKey(child); key != nil {
			return key, value
		}
	}
	return nil, nil
}
