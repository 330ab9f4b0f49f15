// Command chartdoc writes the values.schema.json and the values in the README.md of the
// chart, from the comments of its values.yaml. What a value has in common with the
// configuration file it takes from the schema of that file, so that both are one.
//
// A comment describes its value. A last line of the form
//
//	# @schema {minimum: 1}
//
// adds to the schema that the default implies. Of its keys, "configuration" names the
// field of the configuration file that the value becomes, "each" goes to every member of
// a group, and all others are those of JSON Schema.
package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A value is a value of the chart: its place, what it is, and the values below it.
type value struct {
	path, doc string
	// node is the default.
	node *yaml.Node
	// hint is what @schema says.
	hint     object
	children []value
}

// object is a JSON object.
type object = map[string]any

// parse reads values.yaml.
func parse(text []byte) (value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return value{}, err
	}
	root := value{node: document.Content[0]}
	return root, root.read()
}

// read fills in the members of a group: of a mapping whose members have comments.
func (v *value) read() error {
	if v.node.Kind != yaml.MappingNode || v.leaf() {
		return nil
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		child := value{path: strings.TrimPrefix(v.path+"."+key.Value, "."), node: v.node.Content[i+1]}
		if err := child.comment(key.HeadComment); err != nil {
			return err
		}
		if err := child.read(); err != nil {
			return err
		}
		if child.doc == "" && child.children == nil {
			return fmt.Errorf("values.yaml:%d: %s has no comment above it that says what it is", key.Line, child.path)
		}
		v.children = append(v.children, child)
	}
	return nil
}

// leaf is true for a mapping that is one value and not a group.
func (v *value) leaf() bool {
	return v.hint["properties"] != nil || v.hint["additionalProperties"] != nil || v.hint["type"] == "object"
}

// comment takes a comment apart. Its last paragraph counts: what is before an empty line
// is about more than this value.
func (v *value) comment(text string) error {
	paragraphs := strings.Split(text, "\n\n")
	doc, hint, found := strings.Cut(uncomment(paragraphs[len(paragraphs)-1]), "@schema ")
	v.doc = strings.TrimSpace(doc)
	if !found {
		return nil
	}
	if err := yaml.Unmarshal([]byte(hint), &v.hint); err != nil {
		return fmt.Errorf("values.yaml: %s: @schema: %w", v.path, err)
	}
	return nil
}

// uncomment joins the lines of a comment.
func uncomment(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.Join(lines, " ")
}

// name is the last part of the path.
func (v *value) name() string { return v.path[strings.LastIndex(v.path, ".")+1:] }
