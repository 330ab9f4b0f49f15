package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// The bounds of annotations in the input.
const (
	maxAnnotations     = 64
	maxAnnotationName  = 317 // that of the API: a domain of 253 bytes, a slash and 63 bytes
	maxAnnotationBytes = 1024
)

// annotations are those of an object, in bounds: if there are too many, those of dra-steward
// come first, and long values are cut.
func annotations(all map[string]string) *ast.Term {
	names := slices.Collect(maps.Keys(all))
	names = slices.DeleteFunc(names, func(name string) bool { return len(name) > maxAnnotationName })
	if len(names) > maxAnnotations {
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(others(a)-others(b), strings.Compare(a, b)) })
		names = names[:maxAnnotations]
	}
	object := ast.NewObjectWithCapacity(len(names))
	for _, name := range names {
		value := all[name]
		if len(value) > maxAnnotationBytes {
			value = strings.ToValidUTF8(value[:maxAnnotationBytes], "")
		}
		object.Insert(text(name), text(value))
	}
	return ast.NewTerm(object)
}

// others is 0 for an annotation of dra-steward, and 1 for those of others.
func others(annotation string) int {
	if strings.HasPrefix(annotation, v1alpha1.Group+"/") {
		return 0
	}
	return 1
}
