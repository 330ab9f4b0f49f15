package parameters

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// walk descends to what is wrong in the end. Of alternatives it says only that none
// fits: which of them was meant is unknown.
func (c *check) walk(e *jsonschema.ValidationError) {
	where := c.schemaAt(e.SchemaURL)
	if said, ok := where["x-message"].(string); ok {
		c.value(field.Invalid(c.place(e), shown(c.found(e.InstanceLocation)), said))
		return
	}
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.PropertyNames:
	default:
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				c.walk(cause)
			}
			return
		}
	}
	c.leaf(e, where)
}

// place is where the value stands. Of propertyNames the validator does not say which
// object it is about.
func (c *check) place(e *jsonschema.ValidationError) *field.Path {
	if _, is := e.ErrorKind.(*kind.PropertyNames); is {
		return c.at
	}
	return c.path(e.InstanceLocation)
}

func (c *check) leaf(e *jsonschema.ValidationError, where map[string]any) {
	at := c.place(e)
	value := shown(c.found(e.InstanceLocation))
	below := func(key string) *field.Path { return c.path(append(slices.Clone(e.InstanceLocation), key)) }
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range slices.Sorted(slices.Values(k.Properties)) {
			c.fields = append(c.fields, field.Invalid(below(name), field.OmitValueType{}, "unknown field"+known(where)))
		}
	case *kind.Required:
		for _, name := range k.Missing {
			c.value(field.Required(below(name), "the driver needs it"+choice(where, name)))
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			c.value(field.Required(below(name), "goes with "+k.Prop))
		}
	case *kind.Enum:
		c.choice(field.NotSupported(at, value, words(k.Want)), c.found(e.InstanceLocation), k.Want)
	case *kind.Const:
		c.value(field.NotSupported(at, value, words([]any{k.Want})))
	case *kind.Type:
		c.value(field.TypeInvalid(at, value, fmt.Sprintf("must be %s, not %s", strings.Join(slices.DeleteFunc(slices.Clone(k.Want), func(t string) bool { return t == "null" }), " or "), k.Got)))
	default:
		c.value(field.Invalid(at, value, bound(k)))
	}
}

// bound returns what a value has to be.
func bound(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Format:
		return cmp.Or(wants[k.Want], "is no valid "+k.Want)
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.Pattern:
		return "must match " + k.Want
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		return "matches none of the allowed forms"
	default:
		return k.LocalizedString(english)
	}
}

// known lists the fields that an object has by its schema.
func known(schema map[string]any) string {
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 {
		return ""
	}
	return "; known are " + strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
}

// choice lists the values that a field has by its schema.
func choice(schema map[string]any, name string) string {
	properties, _ := schema["properties"].(map[string]any)
	property, _ := properties[name].(map[string]any)
	if values, _ := property["enum"].([]any); len(values) > 0 {
		return ": " + strings.Join(words(values), ", ")
	}
	return ""
}

func words(values []any) (words []string) {
	for _, value := range values {
		words = append(words, fmt.Sprint(value))
	}
	return words
}

// schemaAt returns the part of the schema that a location of it means, nil if that is
// no object.
func (c *check) schemaAt(location string) map[string]any {
	_, pointer, _ := strings.Cut(location, "#")
	var part any = c.schema.document
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		step = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%").Replace(step)
		switch in := part.(type) {
		case map[string]any:
			part = in[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(in) {
				part = in[i]
			}
		}
	}
	object, _ := part.(map[string]any)
	return object
}
