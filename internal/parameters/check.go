package parameters

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// maxErrors bounds what is said about one configuration.
const maxErrors = 16

// Check checks the parameters of a driver's configuration at a place. Of drivers without a schema there is nothing to say.
func (l *Library) Check(at *field.Path, driver string, parameters []byte) validate.ParameterProblems {
	problems := l.check(at, driver, parameters)
	if l.unknown[driver].UnknownFields == v1alpha1.UnknownDeny {
		problems.Values, problems.Fields = append(problems.Values, problems.Fields...), nil
	}
	if l.unknown[driver].UnknownValues == v1alpha1.UnknownDeny {
		problems.Values, problems.Choices, problems.Kind = slices.Concat(problems.Values, problems.Choices, problems.Kind), nil, nil
	}
	return problems
}

func (l *Library) check(at *field.Path, driver string, parameters []byte) (problems validate.ParameterProblems) {
	kinds := l.drivers[driver]
	if len(kinds) == 0 {
		return problems
	}
	object, duplicates, err := readObject(at, parameters)
	if err != nil {
		problems.Unreadable = field.ErrorList{err}
		return problems
	}
	c := check{at: at, root: object}
	c.schema = kinds[id{}]
	if c.schema == nil || !c.schema.lenient && (object["kind"] != nil || object["apiVersion"] != nil && len(kinds) > 1) {
		of, errs := kindOf(at, object)
		if c.schema = kinds[of]; c.schema == nil && len(errs) == 0 {
			problems.Kind = field.ErrorList{field.NotSupported(at, of.String(), l.Kinds(driver))}
		}
		if problems.Values = append(c.duplicates(duplicates), errs...); c.schema == nil || len(errs) > 0 {
			return problems
		}
	}
	reading := reading{lenient: c.schema.lenient, duplicates: duplicates}
	reading.normalize(object, nil, []*jsonschema.Schema{c.schema.compiled})
	c.values = c.duplicates(reading.duplicates)
	if invalid := (*jsonschema.ValidationError)(nil); errors.As(c.schema.compiled.Validate(object), &invalid) {
		c.walk(invalid)
	}
	if c.schema.lenient && len(reading.duplicates) > 0 {
		c.fields, c.values = append(c.fields, c.values...), nil // which of the duplicates the driver takes decides
	}
	problems.Fields, problems.Choices, problems.Values = c.bounded(c.fields), c.bounded(c.choices), c.bounded(c.values)
	return problems
}

// readObject returns what parameters hold, or why they cannot be read.
func readObject(at *field.Path, parameters []byte) (object map[string]any, duplicates [][]string, _ *field.Error) {
	value, duplicates, err := decode(at, parameters)
	if number := (*numberError)(nil); errors.As(err, &number) {
		return nil, nil, field.Invalid(number.at, fmt.Sprintf("%.40s", number.text), "cannot be read: "+number.err.Error())
	}
	object, is := value.(map[string]any)
	switch {
	case err != nil:
		return nil, nil, field.Invalid(at, field.OmitValueType{}, "cannot be read: "+err.Error())
	case !is:
		return nil, nil, field.TypeInvalid(at, field.OmitValueType{}, "must be a JSON object: the driver reads no other parameters")
	}
	return object, duplicates, nil
}

func kindOf(at *field.Path, object map[string]any) (of id, errs field.ErrorList) {
	for _, f := range []struct {
		name string
		to   *string
	}{{"apiVersion", &of.apiVersion}, {"kind", &of.name}} {
		value, is := object[f.name].(string)
		*f.to = value
		switch {
		case object[f.name] == nil:
			errs = append(errs, field.Required(at.Child(f.name), "the driver reads parameters by their apiVersion and kind"))
		case !is:
			errs = append(errs, field.TypeInvalid(at.Child(f.name), shown(object[f.name]), "must be a string"))
		}
	}
	return of, errs
}

// check turns what the schema says of one object into errors of fields.
type check struct {
	at                      *field.Path
	root                    map[string]any
	schema                  *schema
	fields, choices, values field.ErrorList
}

func (c *check) duplicates(keys [][]string) (errs field.ErrorList) {
	for _, key := range keys {
		errs = with(errs, field.Duplicate(c.path(key), key[len(key)-1]))
	}
	return errs
}

func (c *check) value(err *field.Error) { c.values = with(c.values, err) }

// choice reports a value that the schema does not list. The schemas that come along can be
// older than the driver; a site's own schema is what the site allows.
func (c *check) choice(err *field.Error, value any, choices []any) {
	alike := slices.ContainsFunc(choices, func(choice any) bool { return sameType(choice, value) })
	if c.schema.included && alike {
		c.choices = with(c.choices, err)
	} else {
		c.value(err)
	}
}

// sameType reports whether two values are both texts, or both numbers.
func sameType(a, b any) bool {
	_, text := a.(string)
	_, texts := b.(string)
	_, number := a.(json.Number)
	_, numbers := b.(json.Number)
	return text && texts || number && numbers
}

// with appends an error that is not in the list.
func with(errs field.ErrorList, err *field.Error) field.ErrorList {
	same := func(other *field.Error) bool { return other.Field == err.Field && other.ErrorBody() == err.ErrorBody() }
	if slices.ContainsFunc(errs, same) {
		return errs
	}
	return append(errs, err)
}

// bounded sorts errors by place, and leaves out the ones beyond the bound.
func (c *check) bounded(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.ErrorBody(), b.ErrorBody()))
	})
	if len(errs) <= maxErrors {
		return errs
	}
	rest := field.Invalid(c.at, field.OmitValueType{}, fmt.Sprintf("and %d more", len(errs)-maxErrors))
	return append(errs[:maxErrors:maxErrors], rest)
}

// path names a place in the parameters: items by index, and in brackets what is no
// identifier.
func (c *check) path(keys []string) *field.Path {
	at := c.at
	var value any = c.root
	for _, key := range keys {
		list, isList := value.([]any)
		i, err := strconv.Atoi(key)
		object, _ := value.(map[string]any)
		switch {
		case isList && err == nil && i < len(list):
			at, value = at.Index(i), list[i]
		case identifier(key):
			at, value = at.Child(key), object[key]
		default:
			at, value = at.Key(key), object[key]
		}
	}
	return at
}

func identifier(key string) bool {
	for _, c := range key {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return key != ""
}

// found returns the value at a place.
func (c *check) found(keys []string) any {
	var value any = c.root
	for _, key := range keys {
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i < len(in) {
				value = in[i]
			}
		}
	}
	return value
}

// shown is a value as it is repeated in an error: only what is short.
func shown(value any) any {
	switch value := value.(type) {
	case json.Number:
		if i, err := value.Int64(); err == nil {
			return i
		}
		return value.String()
	case string, bool:
		return value
	}
	return field.OmitValueType{}
}

var english = message.NewPrinter(language.English)
