package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"
)

// explainer compares JSON values with Go types, as the decoder does, but names
// every difference in words and with its path.
type explainer struct {
	document *Document
	problems []Problem
	// counts are those of the problems by kind, described or not.
	counts map[ProblemKind]int
}

// maxProblems is how many problems of a kind are described: the place of each is looked for in the text.
const maxProblems = 1000

// another reports whether one more problem of a kind is to be described.
func (e *explainer) another(kind ProblemKind) bool {
	if e.counts == nil {
		e.counts = map[ProblemKind]int{}
	}
	e.counts[kind]++
	return e.counts[kind] <= maxProblems
}

func (e *explainer) add(kind ProblemKind, path, message string) {
	if e.another(kind) {
		e.problems = append(e.problems, e.document.problem(kind, path, message))
	}
}

// rest are problems that count those that are not described.
func (e *explainer) rest() (rest []Problem) {
	for _, kind := range slices.Sorted(maps.Keys(e.counts)) {
		if more := e.counts[kind] - maxProblems; more > 0 {
			problem := e.document.problem(kind, "", fmt.Sprintf("%d more of this kind, not listed", more))
			problem.More = more
			rest = append(rest, problem)
		}
	}
	return rest
}

// object explains the whole document, which was to be decoded into object.
func (e *explainer) object(object any) {
	decoder := json.NewDecoder(bytes.NewReader(e.document.Raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) == nil {
		e.value(value, reflect.TypeOf(object).Elem(), "")
	}
}

// cover adds a problem of the decoder that the comparison did not find.
func (e *explainer) cover(err error) {
	path := ""
	var field sigsjson.FieldError
	if errors.As(err, &field) {
		path = field.FieldPath()
	}
	kind, message := UnknownField, "unknown field"
	if strings.HasPrefix(err.Error(), "duplicate field") {
		kind, message = DuplicateKey, "duplicate key, of which the last one applies: remove the others"
	}
	line, column := e.document.Position(path)
	for _, known := range e.problems {
		if known.Kind == kind && (kind == UnknownField && known.Line == line && known.Column == column || samePath(known.Path, path)) {
			return
		}
	}
	e.add(kind, path, message)
}

// samePath reports whether two paths differ in the way they write map keys only.
func samePath(a, b string) bool {
	flat := strings.NewReplacer("[", ".", "]", "")
	return flat.Replace(a) == flat.Replace(b)
}

func (e *explainer) value(value any, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case value == nil:
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		if want, ok := unmarshals(value, t); !ok {
			e.wrong(path, want, value, "")
		}
	case t.Kind() == reflect.Struct:
		e.structure(value, t, path)
	case t.Kind() == reflect.Map:
		e.mapping(value, t, path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		e.list(value, t, path)
	default:
		if want, ok := scalarFits(value, t); !ok {
			e.wrong(path, want, value, "")
		}
	}
}

func (e *explainer) structure(value any, t reflect.Type, path string) {
	object, ok := value.(map[string]any)
	if !ok {
		e.wrong(path, "an object", value, objectHint(value, t))
		return
	}
	fields := jsonFields(t)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if field, ok := fields[key]; ok {
			e.value(object[key], field, join(path, key))
			continue
		}
		e.add(UnknownField, join(path, key), "unknown field"+fieldHint(key, object[key], fields))
	}
}

func (e *explainer) mapping(value any, t reflect.Type, path string) {
	object, ok := value.(map[string]any)
	if !ok {
		e.wrong(path, "an object", value, "")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		e.value(object[key], t.Elem(), path+"["+key+"]")
	}
}

func (e *explainer) list(value any, t reflect.Type, path string) {
	items, ok := value.([]any)
	if !ok {
		hint := ""
		if fits(value, t.Elem()) {
			hint = `: put "- " before it`
		}
		e.wrong(path, "a list", value, hint)
		return
	}
	for i, item := range items {
		e.value(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (e *explainer) wrong(path, want string, value any, hint string) {
	if hint == "" && want == "a string" {
		switch value.(type) {
		case json.Number, bool:
			hint = ": put it in quotes"
		}
	}
	e.add(WrongType, path, "must be "+want+", not "+describe(value, want)+hint)
}

// fits reports whether a value goes into a type.
func fits(value any, t reflect.Type) bool {
	probe := explainer{document: &Document{}}
	probe.value(value, t, "")
	return len(probe.problems) == 0
}

// join appends a field to a path.
func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// describe names the type of a JSON value, and the value itself where the type alone does
// not explain the problem.
func describe(value any, want string) string {
	_, wanted, _ := strings.Cut(want, " ")
	switch value := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case bool:
		return fmt.Sprintf("the boolean %t", value)
	case json.Number:
		return "the number " + value.String()
	case string:
		if wanted == "object" || wanted == "list" {
			return "a string"
		}
		return fmt.Sprintf("the string %.80q", value)
	}
	return "null"
}
