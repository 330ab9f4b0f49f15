package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Error says why a file, or one document of it, could not be read.
type Error struct {
	// File is the name of the file as it was given to the [Reader].
	File string
	// Line and Column are counted from 1. They are 0 when the error concerns
	// the file as a whole, for example because it does not exist.
	Line, Column int
	// Message is the problem and what would be right.
	Message string
	// Err is the cause, if it came from the operating system or a parser.
	Err error
	// Old is the text at the place and New what to write instead of it, where that is
	// certain; empty otherwise.
	Old, New string
	// Template is true for a template that was not rendered.
	Template bool
	// Link is true for a link in a folder that is not followed.
	Link bool
}

// Error returns "file:line:column: message", or "file: message" for an error
// without a place.
func (e *Error) Error() string {
	var out strings.Builder
	out.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&out, ":%d:%d", e.Line, e.Column)
	}
	out.WriteString(": ")
	out.WriteString(e.Message)
	return out.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// duplicates finds the keys that occur twice in one object of the document. Merge
// keys and aliases are checked where their values are written.
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
			if first := seen[text]; first != nil && e.another(DuplicateKey) {
				e.problems = append(e.problems, Problem{Kind: DuplicateKey, Path: at, Line: key.Line, Column: key.Column,
					Message: fmt.Sprintf("duplicate key, first in line %d, of which the last one applies: remove one", first.Line)})
			} else if first == nil {
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

// misspelt returns what is wrong with the apiVersion of a document whose kind is one that
// [Decode] knows, and whose group is missing, is the core group or is almost the right one.
// Other groups may have kinds of the same name.
func (d *Document) misspelt() (p Problem, ok bool) {
	kind := knownKind(d.Kind)
	group, version, grouped := strings.Cut(d.APIVersion, "/")
	if kind == "" || (grouped && !similar(group)) || d.inGroup() {
		return p, false
	}
	right := kinds[kind][0].group + "/" + kinds[kind][0].name
	if slices.ContainsFunc(kinds[kind], func(f form) bool { return grouped && f.name == version }) {
		right = kinds[kind][0].group + "/" + version
	}
	if d.APIVersion != "" {
		return d.problem(UnknownVersion, "apiVersion", fmt.Sprintf("%q has no kind %s: did you mean %s?", d.APIVersion, d.Kind, right)), true
	}
	fields := rawFields(d.Raw)
	if _, written := fields["apiVersion"]; written {
		return d.problem(WrongType, "apiVersion", fmt.Sprintf("must be the string %q", right)), true
	}
	for key := range fields {
		if key != "apiVersion" && Nearest(key, []string{"apiVersion"}) != "" {
			return d.problem(UnknownVersion, key, fmt.Sprintf("unknown field %q: did you mean apiVersion: %s?", key, right)), true
		}
	}
	return d.problem(UnknownVersion, "apiVersion", fmt.Sprintf("the field is missing: add apiVersion: %s", right)), true
}

// similar reports whether a group is probably meant to be one of ours. Groups below k8s.io and kubernetes.io
// are those of Kubernetes, no other of which has a kind of such a name.
func similar(group string) bool {
	ours := []string{resourcev1.GroupName, v1alpha1.Group}
	return strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, ".kubernetes.io") || Nearest(group, ours) != "" || slices.ContainsFunc(ours, func(one string) bool { return strings.HasPrefix(one, group+".") })
}

// knownKind returns the kind that a word names, whatever its case.
func knownKind(word string) string {
	for kind := range kinds {
		if strings.EqualFold(kind, word) {
			return kind
		}
	}
	return ""
}

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
	_, version := field(document.Content[0], "apiVersion")
	switch {
	case !ofOurGroups(follow(version)): // other programs may read it as null
	case key.Value == "": // written as nothing
	case value.Tag != "!!null" || value.Value != "":
		e.Old, e.New = key.Value, `"null"`
	case value.Anchor == "":
		e.Old, e.New = key.Value+":", `"null": {}`
	}
	return e
}

func ofOurGroups(version *yaml.Node) bool {
	if version == nil {
		return false
	}
	group, _, _ := strings.Cut(version.Value, "/")
	return group == resourcev1.GroupName || group == v1alpha1.Group
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
