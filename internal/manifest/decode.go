package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// ProblemKind is a class of problems.
type ProblemKind string

// The classes of problems. An object with nothing but unknown fields and
// duplicate keys is decoded nevertheless, as the API server does when it is not
// asked to be strict; the others leave nothing to work with.
const (
	UnknownField   ProblemKind = "UnknownField"
	DuplicateKey   ProblemKind = "DuplicateKey"
	WrongType      ProblemKind = "WrongType"
	UnknownVersion ProblemKind = "UnknownVersion"
	UnknownKind    ProblemKind = "UnknownKind"
)

// Problem is a reason why a document is not what its type says.
type Problem struct {
	Kind ProblemKind
	// Path leads to the value, in the version that the document is written in.
	Path string
	// Line and Column are the position of the value, counted from 1.
	Line, Column int
	// Message is the problem and, where that is known, what would be right; it does not
	// repeat the path.
	Message string
	// More is set in a problem that stands for so many of its kind that are not described.
	More int
}

// String returns "path: message".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Fatal reports whether the problem leaves no object.
func (p Problem) Fatal() bool { return p.Kind != UnknownField && p.Kind != DuplicateKey }

// Decode returns the object of a document of ours in the stable version, in whichever
// it is written, and everything that is wrong with its form, in the
// order of the text. The object is nil if one of the problems is fatal.
func Decode(document *Document) (Object, []Problem) {
	form, ok := document.form()
	if !document.Ours() || !ok {
		return nil, []Problem{document.foreign()}
	}
	object := form.make()
	problems, err := decodeStrict(document, object)
	if err != nil {
		return nil, problems
	}
	converted, err := form.toV1(object)
	if err != nil {
		return nil, append(problems, document.problem(WrongType, "", "cannot be converted to v1: "+err.Error()))
	}
	stable := kinds[document.Kind][0]
	converted.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: stable.group, Version: stable.name, Kind: document.Kind})
	return converted, problems
}

// DecodeAs is [Decode] for a caller that knows the type: *ResourceSlice and so
// on of k8s.io/api/resource/v1. A document of another kind is a problem.
func DecodeAs[T Object](document *Document) (T, []Problem) {
	object, problems := Decode(document)
	typed, ok := object.(T)
	if !ok && object != nil {
		message := fmt.Sprintf("must be what a %T is made of, not %q", typed, document.Kind)
		problems = append(problems, document.problem(UnknownKind, "kind", message))
	}
	return typed, problems
}

// DecodeInto decodes a document of another group into object, a pointer to a struct,
// and returns everything that is wrong with its form, unknown fields and duplicate keys
// too, in the order of the text.
func DecodeInto(document *Document, object any) []Problem {
	problems, _ := decodeStrict(document, object)
	return problems
}

// decodeStrict returns an error, which is one of the problems, if the object cannot be used.
func decodeStrict(document *Document, object any) ([]Problem, error) {
	if err := quantity.Scan(document.Raw, object); err != nil {
		return explain(document, object, nil, err), err
	}
	strict, err := json.UnmarshalStrict(document.Raw, object)
	if err != nil || len(strict) > 0 || document.suspect() {
		return explain(document, object, strict, err), err
	}
	return nil, nil
}

func (d *Document) suspect() bool { return d.source != nil && d.source.suspect }

// foreign says why Decode does not know the document's type.
func (d *Document) foreign() Problem {
	group, version, _ := strings.Cut(d.APIVersion, "/")
	if problem, misspelt := d.misspelt(); misspelt {
		return problem
	}
	versions := Versions(d.Kind)
	switch {
	case !d.Ours():
		return d.problem(UnknownKind, "apiVersion", fmt.Sprintf("must be of the group %s, not %q", resourcev1.GroupName, d.APIVersion))
	case len(versions) > 0 && kinds[d.Kind][0].group != group:
		return d.problem(UnknownKind, "apiVersion", fmt.Sprintf("%s has no kind %q: write %s/%s",
			group, d.Kind, kinds[d.Kind][0].group, versions[0].Name))
	case len(versions) == 0:
		return d.problem(UnknownKind, "kind", fmt.Sprintf("%s has no kind %q: it must be one of %s",
			group, d.Kind, strings.Join(kindsOf(group), ", ")))
	}
	names := make([]string, len(versions))
	for i, version := range versions {
		names[i] = version.String()
	}
	return d.problem(UnknownVersion, "apiVersion", fmt.Sprintf("there is no version %q of %s: it must be one of %s",
		version, d.Kind, strings.Join(names, ", ")))
}

func (d *Document) problem(kind ProblemKind, path, message string) Problem {
	line, column := d.Position(path)
	return Problem{Kind: kind, Path: path, Line: line, Column: column, Message: message}
}

// explain finds out in detail what the decoder complained about.
func explain(document *Document, object any, strict []error, failure error) []Problem {
	e := explainer{document: document}
	e.object(object)
	e.duplicates(object)
	if failure != nil && !slices.ContainsFunc(e.problems, Problem.Fatal) {
		e.add(WrongType, "", "cannot be decoded: "+failure.Error())
	}
	for _, err := range strict {
		e.cover(err)
	}
	slices.SortStableFunc(e.problems, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return append(e.problems, e.rest()...)
}
