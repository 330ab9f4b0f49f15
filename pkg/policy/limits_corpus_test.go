package policy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// The largest claims, templates and classes of 248 in the public manifests, recorded on
// 2026-11-25.
const (
	corpusTolerations = 1
	corpusDistinct    = 1
	corpusBytes       = 2102
)

// TestDefaultLimitsAreFarAboveManifests: the default limits admit 50 times of what public
// manifests have, and not the claim of TestCostlyClaims. Where the corpus is, the
// manifests themselves are within what is recorded.
func TestDefaultLimitsAreFarAboveManifests(t *testing.T) {
	e := engine(t, policy.Settings{}, policy.Library()).BoundsOnly()
	claim := claimOf(1, 1, true)
	list := &claim.Spec.Devices.Requests[0].Exactly.Tolerations
	for len(*list) < 50*max(corpusTolerations, corpusDistinct) {
		seconds := int64(len(*list))
		*list = append(*list, resourceapi.DeviceToleration{Key: "example.com/a", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds})
	}
	claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}}}}
	claim.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`"` + strings.Repeat("a", 50*corpusBytes) + `"`)
	if d := e.Evaluate(t.Context(), writing(claim)); len(d.Failures) > 0 {
		t.Errorf("50 times of the manifests: %v", d.Failures)
	}
	if d := e.Evaluate(t.Context(), writing(costly(4))); len(d.Failures) != 1 || !d.Failures[0].TooLarge {
		t.Errorf("the claim of a campaign: %+v", d)
	}
	folder, err := corpus.Find()
	if err != nil {
		return
	}
	within := engine(t, policy.Settings{Limits: policy.Limits{Tolerations: corpusTolerations, DistinctTolerations: corpusDistinct, Bytes: corpusBytes}}, policy.Library()).BoundsOnly()
	checked := 0
	for _, req := range manifests(t, folder) {
		checked++
		if d := within.Evaluate(t.Context(), req); len(d.Failures) > 0 {
			t.Errorf("%s %s: %v: raise what is recorded", req.Kind, req.Name, d.Failures)
		}
	}
	if checked < 100 {
		t.Errorf("%d objects in %s", checked, folder)
	}
}

// manifests are the claims, templates and classes in the files of a folder.
func manifests(t *testing.T, folder string) (all []policy.Request) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, text := range strings.Split("\n"+string(data), "\n---") {
			var meta struct{ Kind string }
			if yaml.Unmarshal([]byte(text), &meta) != nil {
				continue // not all of them are valid
			}
			object := map[string]any{"ResourceClaim": &resourceapi.ResourceClaim{}, "ResourceClaimTemplate": &resourceapi.ResourceClaimTemplate{}, "DeviceClass": &resourceapi.DeviceClass{}}[meta.Kind]
			if object != nil && yaml.Unmarshal([]byte(text), object) == nil {
				all = append(all, policy.Request{Kind: meta.Kind, Name: path, Object: object})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
