package quantity_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/memory/packed"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// decoders read an object of others that has a quantity, given in JSON, and report whether they refuse it. TestDecoders of
// tools/depcheck finds what decodes without this package.
var decoders = map[string]func(t *testing.T, number string) (refused bool){
	"review": func(_ *testing.T, number string) bool {
		slice := `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"a"},"spec":{"devices":[{"name":"0","capacity":{"a":{"value":` + number + `}}}]}}`
		_, err := review.Reviewer{}.Validate(review.Request{Kind: schema.GroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice")), Object: []byte(slice)})
		return err != nil
	},
	"manifest": func(_ *testing.T, number string) bool {
		object, _ := manifest.Decode(document(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"a"},"spec":{"devices":[{"name":"0","capacity":{"a":{"value":` + number + `}}}]}}`))
		return object == nil
	},
	"manifest, other groups": func(_ *testing.T, number string) bool {
		return len(manifest.DecodeInto(document(`{"apiVersion":"v1","kind":"Pod","spec":{"overhead":{"cpu":`+number+`}}}`), &corev1.Pod{})) > 0
	},
	"record": func(_ *testing.T, number string) bool {
		_, err := record.Decode(`{"d":["a"],"g":[{"n":"m","c":true,"o":{"c":{"value":` + number + `}},"d":[0]}]}`)
		return err != nil
	},
	"records": func(t *testing.T, number string) bool {
		data, _, err := packed.Lines([][]byte{[]byte(`{"d":["a"],"g":[{"n":"m","c":true,"o":{"c":{"value":` + number + `}},"d":[0]}]}`)}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		_, err = record.DecodeRecords(data)
		return err != nil
	},
	"newer": func(t *testing.T, number string) bool {
		var value any
		if err := json.Unmarshal([]byte(number), &value); err != nil {
			return true // no float: the dynamic client refuses it, too
		}
		if value == 0.0 {
			return true // that is what the dynamic client reads
		}
		patch, err := newer.Convert[v1alpha1.ResourceSlicePatch](&unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"devices": map[string]any{"capacity": map[string]any{"a": map[string]any{"value": value}}}}}})
		return err != nil || len(patch.Spec.Devices.Capacity) == 0
	},
	"template of a proof": func(_ *testing.T, number string) bool {
		_, err := v1alpha1.ProofTemplate(&v1alpha1.ReactionProve{Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":` + number + `}}}]}}`)}})
		return err != nil
	},
	"parameters": func(t *testing.T, number string) bool {
		library, err := parameters.Default()
		if err != nil {
			t.Fatal(err)
		}
		found := library.Check(field.NewPath("a"), "gpu.nvidia.com", []byte(`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{"strategy":"MPS","mpsConfig":{"defaultPinnedDeviceMemoryLimit":`+number+`}}}`))
		return len(found.Unreadable)+len(found.Values) > 0
	},
}

func document(text string) *manifest.Document {
	for document, err := range (manifest.Reader{}).Read("a.json", strings.NewReader(text)) {
		if err == nil {
			return document
		}
	}
	return &manifest.Document{}
}

// TestDecoders: each decoder refuses a number that takes long at once, in every spelling.
func TestDecoders(t *testing.T) {
	for name, decode := range decoders {
		if decode(t, `"10Gi"`) {
			t.Errorf("%s refuses 10Gi", name)
		}
		for _, number := range []string{`"1e4194967296"`, `1e4194967296`, `"1e-999999999"`, `"1\u0065-999999999"`, `"\u0031E+4292967296"`, `"\u00a01e-999999999"`, `" 1e2147483647"`, `1e2147483647`, `"10e2147483646"`, `1e-999999`, `"` + strings.Repeat("7", 100_000) + `"`, strings.Repeat("7", 100_000)} {
			start := time.Now()
			refused := decode(t, number)
			if took := time.Since(start); !refused || took > time.Second/4 {
				t.Errorf("%s of %.60s: refused %t after %v", name, number, refused, took)
			}
		}
	}
}
