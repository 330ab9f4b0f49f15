package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	sigsjson "sigs.k8s.io/json"
)

// FuzzRead reads any bytes: nothing may panic or take long, and whatever is
// said about a place must lie within the text.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1", "---\n# x\n--- # y\na: {b: [1, 2]}\n...\n", "{\"kind\":\"A\"}{\"a\":[1,{}]}",
		"apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nspec:\n  devices:\n  - name: a\n    basic: x\n    taints: [{key: 1}]\n",
		"kind: List\nitems:\n- &a {kind: A, b: &b [*a]}\n- *b\n", "a: &a {x: y}\nb: {<<: *a, yes: 1, 0x1: 2, ~: 3}\n",
		"a: |\n  x\r\rb: \u2028 c\u0085d: \"e\\\n f\"\n", "\uFEFFa: ä\xff", "? a\n: b\n? [c]\n: d\n", "a: b: c", "\ta", "a: !!binary x\nb: !x {}\n",
		"kind: ResourceClaimList\napiVersion: resource.k8s.io/v1beta1\nitems:\n- spec: {devices: {requests: [{name: a, count: 1, count: x}]}}\n- 1\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, isJSON bool) {
		begin := time.Now()
		file := "x.yaml"
		if isJSON {
			file = "x.json"
		}
		index := 0
		for document, err := range (Reader{MaxBytes: 1 << 20}).Read(file, bytes.NewReader(text)) {
			index++
			if err != nil {
				var failure *Error
				if !errors.As(err, &failure) || failure.Message == "" {
					t.Fatalf("odd error %#v", err)
				}
				within(t, text, failure.Line, failure.Column, failure.Message)
				continue
			}
			if document.Index != index || !json.Valid(document.Raw) {
				t.Fatalf("odd document %+v", document)
			}
			within(t, text, document.Line, 1, "document")
			paths(t, document, func(path string) {
				line, column := document.Position(path)
				within(t, text, line, column, path)
			})
			if document.Ours() {
				_, problems := Decode(document)
				for _, problem := range problems {
					within(t, text, problem.Line, problem.Column, problem.String())
				}
			}
		}
		if took := time.Since(begin); took > time.Minute {
			t.Fatalf("took %v for %d bytes", took, len(text))
		}
	})
}

// within fails the test if the position is not in the text.
func within(t *testing.T, text []byte, line, column int, what string) {
	t.Helper()
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) || column < 1 || column > len([]rune(lines[line-1]))+1 {
		t.Fatalf("%d:%d is not in the text: %s", line, column, what)
	}
}

// paths visits the paths of all values of the document, up to a number.
func paths(t *testing.T, document *Document, visit func(path string)) {
	t.Helper()
	var value any
	if err := json.Unmarshal(document.Raw, &value); err != nil {
		t.Fatal(err)
	}
	left := 1000
	var walk func(value any, path string)
	walk = func(value any, path string) {
		if left--; left < 0 {
			return
		}
		visit(path)
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				walk(inner, path+"["+key+"]")
				visit(path + "." + key)
			}
		case []any:
			for i, inner := range value {
				walk(inner, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	walk(value, "")
}

// FuzzPosition asks for any path.
func FuzzPosition(f *testing.F) {
	for _, seed := range []string{"", "a", "a.b[0].c", "a[x].y", "a[name=0]", "[", "a[", "a[]", "a]", "..", "<nil>", "a.b[99999999999999999999]", "exactly", "a.exactly[0]"} {
		f.Add(seed)
	}
	text := "apiVersion: resource.k8s.io/v1beta1\na: &a\n  b: [{c: 1, name: x}, {name: '0'}, *b, ]\n  \"\": 1\n  basic: {y: 1}\n  exactly: {'[': 1}\n"
	text = strings.Replace(text, "*b", "x", 1)
	var document *Document
	for found, err := range (Reader{}).Read("x.yaml", strings.NewReader(text)) {
		if err != nil {
			f.Fatal(err)
		}
		document = found
	}
	f.Fuzz(func(t *testing.T, path string) {
		line, column := document.Position(path)
		within(t, []byte(text), line, column, path)
	})
}

// FuzzPositionIn asks for places in texts that are written in any way.
func FuzzPositionIn(f *testing.F) {
	for _, seed := range []string{"a", "'a''b'", `"a\u00e9\tb\x"`, "|\n  a\n\n  b", ">-\n  a\n  b\n\n  c", "|2+\n\n     é x\n", "*x", "&x a", "!!str 3", ""} {
		f.Add(seed, 1, 1)
	}
	f.Fuzz(func(t *testing.T, value string, line, column int) {
		text := "kind: A\nx: &x {y: 1}\ne: " + value + "\n"
		for document, err := range (Reader{}).Read("x.yaml", strings.NewReader(text)) {
			if err != nil || document == nil {
				continue
			}
			if l, c, ok := document.PositionIn("e", line, column); ok {
				within(t, []byte(text), l, c, value)
			}
		}
	})
}

// FuzzDecode compares the explanations with what the decoder complains about:
// the same unknown fields, and a fatal problem if and only if it failed.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":1,"labels":{"a":1,"b":null},"creationTimestamp":"x","managedFields":[{"fieldsV1":{}}],"ownerReferences":[{"controller":"x"}]}}`,
		`{"spec":{"devices":[{"name":"a","basic":{},"capacity":{"a":"1","b":{"value":"x"}},"taints":[{"timeAdded":null}]}],"pool":{"generation":1e3}}}`,
		`{"spec":{"devices":{"requests":[{"exactly":{"count":1.5,"tolerations":[{"tolerationSeconds":-1}],"x":[]},"y":1}],"config":[{"opaque":{"parameters":{"a":[1]}}}]}}}`,
		`{"spec":{"taint":{"key":[],"timeAdded":1},"deviceSelector":null},"status":{"conditions":[{"lastTransitionTime":"2026-01-31T12:00:00Z"}]}}`,
		`{"spec":{"spec":{"devices":{"constraints":[{"requests":["a",1]}]}},"Spec":{}},"Metadata":{},"a":1,"a":2}`,
	} {
		for i := range 15 {
			f.Add([]byte(seed), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, selector uint8) {
		kind := Kinds()[int(selector)%len(kinds)]
		form := kinds[kind][int(selector)/len(kinds)%len(kinds[kind])]
		if !json.Valid(raw) || depth(raw) > maxDepth {
			return
		}
		object := form.make()
		strict, err := sigsjson.UnmarshalStrict(raw, object)
		e := explainer{document: &Document{Kind: kind, Raw: raw, source: newSource(raw, 1, 1, true)}}
		if e.duplicates(object); len(e.problems) > 0 {
			return
		}
		e.object(object)
		if fatal := slices.ContainsFunc(e.problems, Problem.Fatal); fatal != (err != nil) {
			t.Fatalf("%s %s: decoder says %v, explained as %v", form.name, kind, err, e.problems)
		}
		if err != nil || len(strict) >= 100 {
			return
		}
		flat := strings.NewReplacer("[", ".", "]", "")
		want, got := map[string]bool{}, map[string]bool{}
		for _, err := range strict {
			var field sigsjson.FieldError
			if errors.As(err, &field) {
				want[flat.Replace(field.FieldPath())] = true
			}
		}
		for _, problem := range e.problems {
			got[flat.Replace(problem.Path)] = true
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%s %s: decoder says %v, explained as %v", form.name, kind, want, got)
		}
		if _, err := form.toV1(object); err != nil {
			t.Fatalf("%s %s: %v", form.name, kind, err)
		}
	})
}
