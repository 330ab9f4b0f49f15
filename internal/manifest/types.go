package manifest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// wanted describes how types with their own decoder are written.
var wanted = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity](): "a quantity such as 4 or 10Gi",
	reflect.TypeFor[metav1.Time]():       "a time such as 2026-01-31T12:00:00Z",
	reflect.TypeFor[metav1.MicroTime]():  "a time such as 2026-01-31T12:00:00.000000Z",
	reflect.TypeFor[metav1.Duration]():   "a duration such as 1m30s",
}

// unmarshals reports whether a type with its own decoder takes the value, and
// what it wants.
func unmarshals(value any, t reflect.Type) (want string, ok bool) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "a JSON value", false
	}
	want, known := wanted[t]
	if !known {
		want = "a " + t.Name()
	}
	into := reflect.New(t).Interface().(json.Unmarshaler)
	if quantity.Scan(raw, into) != nil {
		return want + " of a reasonable size", false
	}
	return want, into.UnmarshalJSON(raw) == nil
}

// scalarFits reports whether a value goes into a type that is neither an object
// nor a list, and what the type wants.
func scalarFits(value any, t reflect.Type) (want string, ok bool) {
	switch t.Kind() {
	case reflect.String:
		_, ok = value.(string)
		return "a string", ok
	case reflect.Bool:
		_, ok = value.(bool)
		return "true or false", ok
	case reflect.Slice:
		text, isString := value.(string)
		_, err := base64.StdEncoding.DecodeString(text)
		return "a string in base64", isString && err == nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number, isNumber := value.(json.Number)
		_, err := strconv.ParseInt(number.String(), 10, t.Bits())
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits()), isNumber && err == nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		number, isNumber := value.(json.Number)
		_, err := strconv.ParseUint(number.String(), 10, t.Bits())
		return fmt.Sprintf("a whole number of at most %d bits and not negative", t.Bits()), isNumber && err == nil
	case reflect.Float32, reflect.Float64:
		number, isNumber := value.(json.Number)
		_, err := strconv.ParseFloat(number.String(), t.Bits())
		return "a number", isNumber && err == nil
	}
	return "a " + t.Kind().String(), true
}

// jsonFields returns the types of a struct's fields by their names in JSON,
// those of embedded structs included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name != "":
			fields[name] = field.Type
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			for name, inner := range jsonFields(field.Type) {
				if _, shadowed := fields[name]; !shadowed {
					fields[name] = inner
				}
			}
		default:
			fields[field.Name] = field.Type
		}
	}
	return fields
}

// fieldHint is the probable meaning of an unknown field: another spelling, a field one
// level deeper, or the fields in it one level higher.
func fieldHint(key string, value any, fields map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(fields))
	for _, name := range names {
		if strings.EqualFold(name, key) || len(key) > 3 && distance(name, key) <= 2 {
			return fmt.Sprintf(": did you mean %q?", name)
		}
	}
	for _, name := range names {
		inner := fields[name]
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			continue
		}
		if _, ok := jsonFields(inner)[key]; ok {
			return fmt.Sprintf(": did you mean %q?", name+"."+key)
		}
	}
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		return ""
	}
	for inner := range object {
		if _, ok := fields[inner]; !ok {
			return ""
		}
	}
	return ": write what is in it one level higher"
}

// objectHint shows how to write a value as a field of the object that is
// expected in its place, if it can be one.
func objectHint(value any, t reflect.Type) string {
	fields := jsonFields(t)
	for _, name := range []string{"value", "string", "int", "bool"} {
		if field, ok := fields[name]; ok && fits(value, field) {
			raw, _ := json.Marshal(value)
			return fmt.Sprintf(": write {%s: %s}", name, raw)
		}
	}
	return ""
}

// Nearest returns the name that is most like a word, or "" if none is similar.
func Nearest(word string, names []string) string {
	best, least := "", letters(word)+1
	for _, name := range names {
		if strings.EqualFold(name, word) {
			return name
		}
		if d := distance(name, word); d < least {
			best, least = name, d
		}
	}
	return best
}

// letters is in how many letters a name can differ from a word that was meant to be it: in more of longer words.
func letters(word string) int { return max(2, len(word)/4) }

// suggestions is how many names an error suggests at most.
const suggestions = 3

// DidYouMean ends an error about a word that is not a name: with those that are like it, or else that have a
// part of it between - and /, the nearest first. It is "" if there are none.
func DidYouMean(word string, names []string) string {
	parts := strings.FieldsFunc(strings.ToLower(word), func(r rune) bool { return r == '-' || r == '/' })
	shares := func(name string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return len(part) > 3 && strings.Contains(strings.ToLower(name), part) })
	}
	far := func(name string) int {
		if name == word || strings.EqualFold(name, word) {
			return 0
		}
		return distance(name, word)
	}
	near := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return far(name) > letters(word) && !shares(name) })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	near = slices.Compact(near)
	if len(near) == 0 {
		return ""
	}
	var quoted []string
	for _, name := range near[:min(len(near), suggestions)] {
		quoted = append(quoted, strconv.Quote(name))
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
}

// distance returns how many letters must be added, removed or replaced to make
// one word of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
