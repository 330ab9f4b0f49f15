package parameters

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A reading is what a driver that is written in Go makes of the names and the nulls of its parameters.
type reading struct {
	// lenient drivers read with encoding/json: a name counts in any case, and of two equal ones the later.
	lenient    bool
	duplicates [][]string
}

// normalize removes fields that are null: they keep the value that an absent field has. A null of a name that no schema
// declares stays: it is an unknown field, or the empty value of an entry of a map.
func (r *reading) normalize(value any, path []string, schemas []*jsonschema.Schema) {
	schemas = applied(schemas)
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			x := value[key]
			name := r.name(key, schemas)
			if name != key {
				delete(value, key)
				if _, twice := value[name]; twice {
					r.duplicates = append(r.duplicates, append(slices.Clone(path), key))
				}
				value[name] = x
			}
			below, declared := property(name, schemas)
			if x == nil && declared {
				delete(value, name)
				continue
			}
			r.normalize(x, append(path[:len(path):len(path)], name), below)
		}
	case []any:
		for _, x := range value {
			r.normalize(x, path, items(schemas))
		}
	}
}

// name is the declared name that a lenient driver reads a key as.
func (r *reading) name(key string, schemas []*jsonschema.Schema) string {
	if _, declared := property(key, schemas); !r.lenient || declared {
		return key
	}
	for _, schema := range schemas {
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if strings.EqualFold(name, key) {
				return name
			}
		}
	}
	return key
}

// property returns the schemas of a field, and whether one of them declares it by its name.
func property(name string, schemas []*jsonschema.Schema) (below []*jsonschema.Schema, declared bool) {
	for _, schema := range schemas {
		if of, is := schema.Properties[name]; is {
			below, declared = append(below, of), true
			continue
		}
		matched := false
		for pattern, of := range schema.PatternProperties {
			if pattern.MatchString(name) {
				below, matched = append(below, of), true
			}
		}
		if of, is := schema.AdditionalProperties.(*jsonschema.Schema); is && !matched {
			below = append(below, of)
		}
	}
	return below, declared
}

func items(schemas []*jsonschema.Schema) (below []*jsonschema.Schema) {
	for _, schema := range schemas {
		if schema.Items2020 != nil {
			below = append(below, schema.Items2020)
		}
	}
	return below
}

// applied returns all schemas that say something about the same value.
func applied(schemas []*jsonschema.Schema) (all []*jsonschema.Schema) {
	for rest := slices.Clone(schemas); len(rest) > 0; {
		schema := rest[0]
		rest = rest[1:]
		if schema == nil || slices.Contains(all, schema) {
			continue
		}
		all = append(all, schema)
		rest = slices.Concat(rest, schema.AllOf, schema.AnyOf, schema.OneOf, slices.Collect(maps.Values(schema.DependentSchemas)),
			[]*jsonschema.Schema{schema.Ref, schema.If, schema.Then, schema.Else})
	}
	return all
}
