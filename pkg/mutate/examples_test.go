package mutate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest/example"
	"github.com/dra-steward/dra-steward/pkg/mutate"
)

var update = flag.Bool("update", false, "rewrite the .want files of the examples")

// writeTime is when everything in the examples is written.
var writeTime = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// TestExamples runs the examples of every default. A default without an example
// that changes something and one that does not fails, and so does an example file
// without a default.
func TestExamples(t *testing.T) {
	orphans := map[string]bool{}
	files, err := fs.Glob(mutate.Examples, "examples/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		orphans[file] = true
	}
	for _, d := range mutate.Defaults() {
		t.Run(d.ID, func(t *testing.T) { testExample(t, d.ID) })
		delete(orphans, "examples/"+d.ID+".txtar")
	}
	for file := range orphans {
		t.Errorf("%s belongs to no default: name it <default ID>.txtar or remove it", file)
	}
}

func testExample(t *testing.T, id string) {
	e, err := example.Load(mutate.Examples, id)
	if err != nil {
		t.Fatalf("%v\nadd pkg/mutate/examples/%s.txtar", err, id)
	}
	var changed, unchanged int
	for i := range e.Cases {
		c := &e.Cases[i]
		got := fill(t, id, e.Site, c)
		if strings.Contains(got, "set ") {
			changed++
		} else {
			unchanged++
		}
		if *update {
			c.Want = got
		} else if diff := cmp.Diff(c.Want, got); diff != "" {
			t.Errorf("%s.yaml: -want +got (go test -update rewrites it):\n%s", c.Name, diff)
		}
	}
	if changed == 0 || unchanged == 0 || e.Comment == "" {
		t.Errorf("examples/%s.txtar has %d cases with a change and %d without, wants at least one of each, and a comment", id, changed, unchanged)
	}
	if *update {
		if err := os.WriteFile(filepath.Join("examples", id+".txtar"), e.Format(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fill returns what the defaults do to a case, a line each; only those of the
// default id, since others may apply too.
func fill(t *testing.T, id string, site []byte, c *example.Case) string {
	t.Helper()
	var configuration v1alpha1.StewardConfiguration
	if err := yaml.UnmarshalStrict(site, &configuration); err != nil {
		t.Fatalf("site.yaml: %v", err)
	}
	settings := mutate.Settings(configuration.Defaults)
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(c.Object, &kind); err != nil {
		t.Fatalf("%s.yaml: %v", c.Name, err)
	}
	var result mutate.Result
	switch kind.Kind {
	case "ResourceSlice":
		result = apply(t, c, mutate.ResourceSlice(), settings)
	case "ResourceClaim":
		result = apply(t, c, mutate.ResourceClaim(), settings)
	case "ResourceClaimTemplate":
		result = apply(t, c, mutate.ResourceClaimTemplate(), settings)
	case "DeviceTaintRule":
		result = apply(t, c, mutate.DeviceTaintRule(), settings)
	case "DeviceDrain":
		result = apply(t, c, mutate.DeviceDrain(), settings)
	default:
		t.Fatalf("%s.yaml: no defaults for kind %q", c.Name, kind.Kind)
	}
	var lines strings.Builder
	for _, change := range result.Changes {
		if change.Default == id {
			value, err := json.Marshal(change.Value)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&lines, "set %s: %s\n", change.Pointer, value)
		}
	}
	for _, warning := range result.Warnings {
		if warning.Default == id {
			fmt.Fprintf(&lines, "warning: %s: %s\n", warning.Path, warning.Message)
		}
	}
	return lines.String()
}

// apply applies the table as an API server would apply our patch, with a field
// that we do not know, and holds it to its promises: the changes lead to the object
// that the defaults see, a second time changes nothing, the unknown field stays.
func apply[T any](t *testing.T, c *example.Case, defaults mutate.Table[T], settings mutate.Settings) mutate.Result {
	t.Helper()
	before := toJSON(t, c.Object)
	result, obj := once(t, before, toJSON(t, c.Old), defaults, settings)
	after := patched(t, before, result)
	var fromPatch T
	if err := json.Unmarshal(after, &fromPatch); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(obj, &fromPatch); diff != "" {
		t.Errorf("%s: the changes lead elsewhere than the object: -object +changes:\n%s", c.Name, diff)
	}
	if again, _ := once(t, after, toJSON(t, c.Old), defaults, settings); len(again.Changes) > 0 {
		t.Errorf("%s: not idempotent, the second time sets %v", c.Name, again.Changes)
	}
	if !bytes.Contains(after, unknown) {
		t.Errorf("%s: the unknown field is gone: %s", c.Name, after)
	}
	return result
}

func once[T any](t *testing.T, object, stored []byte, defaults mutate.Table[T], settings mutate.Settings) (mutate.Result, *T) {
	t.Helper()
	obj := new(T)
	if err := json.Unmarshal(object, obj); err != nil {
		t.Fatal(err)
	}
	old := func() (*T, error) {
		if stored == nil {
			return nil, nil
		}
		obj := new(T)
		return obj, json.Unmarshal(stored, obj)
	}
	result, err := defaults.Apply(mutate.Write[T]{Object: obj, Old: old, Now: writeTime}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return result, obj
}

func patched(t *testing.T, object []byte, result mutate.Result) []byte {
	t.Helper()
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var operations []operation
	for _, change := range result.Changes {
		operations = append(operations, operation{"add", change.Pointer, change.Value})
	}
	if operations == nil {
		return object
	}
	data, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(object)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return after
}

var unknown = []byte(`"fieldOfTomorrow":{"z":1,"a":[1.50,"x"]}`)

// toJSON converts a manifest and adds a field that no version knows.
func toJSON(t *testing.T, manifest []byte) []byte {
	t.Helper()
	if manifest == nil {
		return nil
	}
	data, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Replace(data, []byte(`"spec":{`), append([]byte(`"spec":{`), append(unknown, ',')...), 1)
}

// TestNoOpOnDefaultedObjects holds the defaults to what a 1.37 API server has done
// already when it calls us: nothing is left to set but the finalizer.
func TestNoOpOnDefaultedObjects(t *testing.T) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{{
		Name:   "gpu-0",
		Taints: []resourceapi.DeviceTaint{{Key: "example.com/a", Effect: "NoSchedule", TimeAdded: &metav1.Time{Time: writeTime.Truncate(time.Second)}}},
	}}}}
	result, err := mutate.ResourceSlice().Apply(mutate.Write[resourceapi.ResourceSlice]{
		Object: slice, Old: func() (*resourceapi.ResourceSlice, error) { return nil, nil }, Now: writeTime,
	}, mutate.Settings{})
	if err != nil || len(result.Changes)+len(result.Warnings) > 0 {
		t.Errorf("got %v, %v", result, err)
	}
}
