package config_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

type schemaNode struct {
	Description          string
	Type                 string
	Enum                 []any
	Maximum              int
	Items                *schemaNode
	Properties           map[string]*schemaNode
	Required             []string
	AdditionalProperties json.RawMessage
}

// TestSchema holds the schema to the types: the same fields of the same types, nothing
// else, and each described.
func TestSchema(t *testing.T) {
	var root schemaNode
	if err := json.Unmarshal(config.Schema, &root); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(root.Required, []string{"apiVersion", "kind"}) {
		t.Errorf("required are %v", root.Required)
	}
	compare(t, "", reflect.TypeFor[v1alpha1.StewardConfiguration](), &root)
	for _, limit := range validate.LimitFields() {
		if got := root.Properties["limits"].Properties[limit.Name].Maximum; got != limit.Upstream {
			t.Errorf("limits.%s: maximum %d, want %d", limit.Name, got, limit.Upstream)
		}
	}
}

func compare(t *testing.T, at string, of reflect.Type, node *schemaNode) {
	t.Helper()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object"}[of.Kind()]
	switch of {
	case reflect.TypeFor[json.RawMessage]():
		want = "object"
	case reflect.TypeFor[metav1.Duration](), reflect.TypeFor[metav1.Time]():
		want = "string"
	case reflect.TypeFor[v1alpha1.Severity](), reflect.TypeFor[v1alpha1.PolicyMode](), reflect.TypeFor[v1alpha1.FinalizerMode]():
		if want = ""; len(node.Enum) == 0 {
			t.Errorf("%s: has no values", at)
		}
	}
	if at == "apiVersion" || at == "kind" {
		want = ""
	}
	if node.Type != want {
		t.Errorf("%s: type %q, want %q", at, node.Type, want)
	}
	switch {
	case of == reflect.TypeFor[json.RawMessage]():
		// Any object: its own schema says what is in it.
	case want == "array":
		compare(t, at+"[]", of.Elem(), node.Items)
	case of.Kind() == reflect.Map:
		var inner schemaNode
		if err := json.Unmarshal(node.AdditionalProperties, &inner); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		compare(t, at+"[]", of.Elem(), &inner)
	case want == "object":
		fields := fieldsOf(of)
		if string(node.AdditionalProperties) != "false" || !slices.Equal(slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(node.Properties))) {
			t.Fatalf("%s: properties %v, want %v and no others", at, slices.Sorted(maps.Keys(node.Properties)), slices.Sorted(maps.Keys(fields)))
		}
		for name, field := range fields {
			if node.Properties[name].Description == "" {
				t.Errorf("%s.%s has no description", at, name)
			}
			compare(t, strings.TrimPrefix(at+"."+name, "."), field, node.Properties[name])
		}
	}
}

func fieldsOf(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			maps.Copy(fields, fieldsOf(field.Type))
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = field.Type
	}
	return fields
}
