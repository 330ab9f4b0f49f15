package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// one returns the only document of the text.
func one(t testing.TB, text string) *manifest.Document {
	t.Helper()
	var result *manifest.Document
	for document, err := range (manifest.Reader{}).Read("x.yaml", strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		result = document
	}
	return result
}

const claim = `# A claim.
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: big
  labels:
    example.com/team: a
    "example.com/te": b
    yes: c
    "odd]key": d
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        tolerations:
        - {key: a, operator: Exists}
        -   key: b
    - exactly:
        count: 2
      name: "0"
    -
      name: ünï
    constraints: [{requests: [gpu, "0"], matchAttribute: example.com/a}]
`

func TestPosition(t *testing.T) {
	document := one(t, claim)
	for path, want := range map[string]string{
		"":                                  "2:1",
		"<nil>":                             "2:1",
		"kind":                              "3:1",
		"spec":                              "11:1",
		"metadata.name":                     "5:3",
		"metadata.labels[example.com/team]": "7:5",
		"metadata.labels[example.com/te]":   "8:5",
		"metadata.labels.example.com/te":    "8:5",
		"metadata.labels[true]":             "9:5",
		"metadata.labels[odd]key]":          "10:5",
		"metadata.labels[none]":             "6:3",
		"metadata.nothing.at.all":           "4:1",
		"spec.devices.requests":             "13:5",
		"spec.devices.requests[0]":          "14:7",
		"spec.devices.requests[0].exactly.tolerations":         "17:9",
		"spec.devices.requests[0].exactly.tolerations[0].key":  "18:12",
		"spec.devices.requests[0].exactly.tolerations[1].key":  "19:13",
		"spec.devices.requests[gpu].exactly.tolerations[1]":    "19:13",
		"spec.devices.requests[0].exactly.tolerations[2].key":  "17:9",
		"spec.devices.requests[0].exactly.tolerations[-1].key": "17:9",
		"spec.devices.requests[1].exactly.count":               "21:9",
		"spec.devices.requests[name=0].exactly.count":          "21:9",
		"spec.devices.requests[ünï].name":                      "24:7",
		"spec.devices.requests[none].name":                     "13:5",
		"spec.devices.constraints[0].matchAttribute":           "25:42",
		"spec.devices.constraints[0].requests[1]":              "25:36",
		"spec.devices.constraints[0].requests[1].more":         "25:36",
		"spec.devices.constraints[":                            "25:5",
		"spec.devices.":                                        "12:3",
		"spec.dev":                                             "11:1",
		"..":                                                   "2:1",
	} {
		line, column := document.Position(path)
		if got := fmt.Sprintf("%d:%d", line, column); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

// TestPositionOfFieldPath uses paths as rules make them.
func TestPositionOfFieldPath(t *testing.T) {
	document := one(t, claim)
	requests := field.NewPath("spec", "devices", "requests")
	for _, test := range []struct {
		path *field.Path
		want int
	}{
		{requests.Index(0).Child("exactly", "tolerations").Index(1).Child("key"), 19},
		{requests.Key("gpu").Child("exactly"), 15},
		{field.NewPath("metadata").Child("labels").Key("example.com/team"), 7},
		{nil, 2},
	} {
		if line, _ := document.Position(test.path.String()); line != test.want {
			t.Errorf("%v: line %d, want %d", test.path, line, test.want)
		}
	}
}

func TestPositionInOtherForms(t *testing.T) {
	for name, test := range map[string]struct {
		text, path, want string
	}{
		"v1beta1 request":        {"apiVersion: resource.k8s.io/v1beta1\nspec:\n  devices:\n    requests:\n    - name: a\n      count: 2", "spec.devices.requests[0].exactly.count", "6:7"},
		"v1beta1 request itself": {"apiVersion: resource.k8s.io/v1beta1\nspec:\n  devices:\n    requests:\n    - name: a\n      count: 2", "spec.devices.requests[0].exactly", "5:7"},
		"v1beta1 device":         {"apiVersion: resource.k8s.io/v1beta1\nspec:\n  devices:\n  - name: a\n    basic:\n      taints:\n      - key: x", "spec.devices[a].taints[0].key", "7:9"},
		"v1beta1 nothing there":  {"apiVersion: resource.k8s.io/v1beta1\nspec:\n  devices:\n  - name: a\n    basic: {}", "spec.devices[a].taints[0].key", "4:5"},
		"v1 does not skip":       {"apiVersion: resource.k8s.io/v1\nspec:\n  requests:\n  - name: a\n    count: 2", "spec.requests[0].exactly.count", "4:5"},
		"json":                   {"{\"a\": {\n  \"b\" : [1, {\"ä\": \"\\u00e4\\ud83d\\ude00\", \"c\": null}]}}", "a.b[1].c", "2:41"},
		"json item":              {"{\"a\": {\n  \"b\" : [1, {\"ä\": 1}]}}", "a.b[1]", "2:13"},
		"json scalar":            {"{\"a\": {\n  \"b\" : [1, {\"ä\": 1}]}}", "a.b[0]", "2:10"},
		"second json value":      {"{} {\"a\": 1}", "a", "1:5"},
		"twice":                  {"a: 1\na: 2", "a", "2:1"},
		"alias":                  {"a: &a {b: 1}\nc: *a", "c.b", "1:8"},
		"alias itself":           {"a: &a {b: 1}\nc: *a", "c", "2:1"},
		"alias as item":          {"a: &a {b: 1}\nc: [*a]", "c[0]", "2:5"},
		"merge":                  {"a: &a {b: 1}\nc:\n  <<: *a\n  d: 1", "c.b", "1:8"},
		"merge of several":       {"a: &a {b: 1}\ne: &e {b: 2}\nc:\n  <<: [*a, *e]", "c.b", "1:8"},
		"merge overridden":       {"a: &a {b: 1}\nc:\n  <<: *a\n  b: 2", "c.b", "4:3"},
		"block text before":      {"a: |\n  x\n  y\nb: 1", "b", "4:1"},
		"odd line breaks":        {"a: x\u2028# y\nb: [1, 2]", "b[1]", "2:8"},
		"windows":                {"a: x\r\nb: [1, 2]\r\n", "b[1]", "2:8"},
		"byte order mark":        {"\uFEFFa: x", "a", "1:1"},
		"second document":        {"---\n# none\n---\na: x", "a", "4:1"},
		"list item":              {"kind: List\nitems:\n- kind: A\n  spec: {a: 1}", "spec.a", "4:10"},
		"json list item":         {"{\"kind\": \"List\", \"items\": [\n{\"spec\": {\"a\": 1}}]}", "spec.a", "2:11"},
		"empty value":            {"a:\nb: 1", "a.x", "1:1"},
		"not an object":          {"- a", "x", "1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			line, column := one(t, test.text).Position(test.path)
			if got := fmt.Sprintf("%d:%d", line, column); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestPositionWithoutText(t *testing.T) {
	if line, column := (&manifest.Document{Line: 7}).Position("spec"); line != 7 || column != 1 {
		t.Errorf("got %d:%d, want 7:1", line, column)
	}
}

func BenchmarkPosition(b *testing.B) {
	var text strings.Builder
	text.WriteString("apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nspec:\n  devices:\n")
	for i := range 128 {
		fmt.Fprintf(&text, "  - name: gpu-%d\n    attributes:\n", i)
		for j := range 32 {
			fmt.Fprintf(&text, "      example.com/a%d: {int: %d}\n", j, j)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			one(b, text.String()).Position("spec.devices[gpu-127].attributes[example.com/a31].int")
		}
	})
	document := one(b, text.String())
	b.Run("further", func(b *testing.B) {
		for b.Loop() {
			document.Position("spec.devices[gpu-127].attributes[example.com/a31].int")
		}
	})
}
