package policy

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestAnnotations: the annotations in the input are bounded in number and length, and those of
// dra-steward are never the ones that are left out.
func TestAnnotations(t *testing.T) {
	all := map[string]string{v1alpha1.ReasonAnnotation: strings.Repeat("é", maxAnnotationBytes), strings.Repeat("n", maxAnnotationName+1): "x"}
	for i := range 10 * maxAnnotations {
		all[fmt.Sprintf("a.example.com/%d", i)] = "x"
	}
	kept, is := annotations(all).Value.(ast.Object)
	if !is || kept.Len() != maxAnnotations {
		t.Fatalf("%v: want an object of %d", kept, maxAnnotations)
	}
	reason := kept.Get(ast.StringTerm(v1alpha1.ReasonAnnotation))
	if value, is := reason.Value.(ast.String); !is || len(value) > maxAnnotationBytes || len(value) < maxAnnotationBytes-utf8.UTFMax || !utf8.ValidString(string(value)) {
		t.Errorf("the reason is %v", reason)
	}
	if none, is := annotations(nil).Value.(ast.Object); !is || none.Len() != 0 {
		t.Errorf("%v, want an empty object", none)
	}
	few, is := annotations(map[string]string{"a": "1", "b": ""}).Value.(ast.Object)
	if want := ast.MustParseTerm(`{"a": "1", "b": ""}`).Value; !is || few.Compare(want) != 0 {
		t.Errorf("%v, want %v", few, want)
	}
}
