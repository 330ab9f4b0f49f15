package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// schema returns the JSON schema of the values; configuration is that of the
// configuration file.
func schema(root value, configuration object) ([]byte, error) {
	s, err := root.schema(nil, configuration)
	if err != nil {
		return nil, err
	}
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "Values of the dra-steward chart"
	// helm adds it to the values of every chart.
	s["properties"].(object)["global"] = object{"type": "object", "description": "Values that all charts of a parent chart share.",
		"properties": object{"imageRegistry": object{"type": "string", "description": "Registry of all images, in place of image.registry."}}}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(s)
	return out.Bytes(), err
}

// schema of a value; base is what its group knows of it, a copy.
func (v value) schema(base, configuration object) (object, error) {
	s := object{}
	maps.Copy(s, base)
	each, _ := v.hint["each"].(object)
	if field, ok := v.hint["configuration"].(string); ok {
		known, err := lookUp(configuration, field)
		if err != nil {
			return nil, fmt.Errorf("values.yaml: %s: %w", v.path, err)
		}
		maps.Copy(s, known)
	}
	for key, hint := range v.hint {
		if key != "each" && key != "configuration" {
			s[key] = hint
		}
	}
	v.imply(s)
	if v.doc != "" {
		s["description"] = v.doc
	}
	if v.children == nil {
		return s, nil
	}
	s["type"], s["additionalProperties"] = "object", false
	known, _ := s["properties"].(object)
	properties := object{}
	for _, child := range v.children {
		inherited := object{}
		if of, ok := known[child.name()].(object); ok {
			maps.Copy(inherited, of)
		}
		maps.Copy(inherited, each)
		of, err := child.schema(inherited, configuration)
		if err != nil {
			return nil, err
		}
		properties[child.name()] = of
	}
	for name := range known {
		if properties[name] == nil {
			return nil, fmt.Errorf("values.yaml: %s.%s is a field of the configuration and no value", v.path, name)
		}
	}
	s["properties"] = properties
	if required := v.required(); required != nil {
		s["required"] = required
	}
	return s, nil
}

// required are the groups among the members that templates read: null removes one. Only a group whose
// members are null by default may be left out.
func (v value) required() (names []any) {
	for _, child := range v.children {
		if slices.ContainsFunc(child.children, func(member value) bool { return member.node.ShortTag() != "!!null" }) {
			names = append(names, child.name())
		}
	}
	return names
}

// imply adds what the default says about the type: a null allows null, and a group may
// be left out altogether by null.
func (v value) imply(s object) {
	types := map[string]string{"!!bool": "boolean", "!!int": "integer", "!!float": "number", "!!str": "string", "!!seq": "array", "!!map": "object"}
	implied := types[v.node.ShortTag()]
	switch known, isName := s["type"].(string); {
	case implied == "" && isName:
		s["type"] = []any{known, "null"}
	case s["type"] == nil && s["enum"] == nil && implied != "":
		s["type"] = implied
	}
}

// lookUp finds a field of the configuration, such as "limits", or one in the items of a list.
func lookUp(configuration object, field string) (object, error) {
	at := configuration
	for name := range strings.SplitSeq(field, ".") {
		if items, isList := at["items"].(object); isList {
			at = items
		}
		properties, _ := at["properties"].(object)
		next, ok := properties[name].(object)
		if !ok {
			return nil, fmt.Errorf("the configuration has no field %s, it has %s", field, strings.Join(slices.Sorted(maps.Keys(properties)), ", "))
		}
		at = next
	}
	return at, nil
}

// namesFile is the file of the chart with the names.
const namesFile = "files/names.yaml"

// names are the rules, and the policies of the library with their parameters. The template of the
// configuration refuses others: a schema can refuse them too, but cannot say which name is near.
type names struct {
	Rules    []string            `json:"rules"`
	Policies map[string][]string `json:"policies"`
}

// knownNames returns the names that exist. A site's own policies are not known to the chart.
func knownNames() (names, error) {
	library, err := policy.Parse(context.Background(), policy.Library())
	if err != nil {
		return names{}, err
	}
	known := names{Rules: ruleIDs(), Policies: map[string][]string{}}
	for _, p := range library.Policies() {
		fields, _ := p.Parameters["properties"].(map[string]any)
		known.Policies[p.Code] = append([]string{}, slices.Sorted(maps.Keys(fields))...)
	}
	return known, nil
}

// file is the text of the file.
func (n names) file() ([]byte, error) {
	text, err := yaml.Marshal(n)
	return append([]byte("# Generated by tools/chartdoc; do not edit.\n"), text...), err
}

// ruleIDs are the IDs that a configuration may name.
func ruleIDs() []string {
	names := []string{rulebook.FieldDropped}
	for _, d := range validate.Rules() {
		names = append(names, d.ID)
	}
	for _, d := range mutate.Defaults() {
		names = append(names, d.ID)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
