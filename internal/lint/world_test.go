package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cluster/existing"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

const (
	worldClass = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: card.example.com}\nspec: {selectors: [{cel: {expression: 'device.driver == \"card.example.com\"'}}]}\n"
	worldClaim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: cards, namespace: lab}\nspec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: CLASS}}]}}}\n"
	worldPod   = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, namespace: lab}\nspec: {template: {spec: {resourceClaims: [{name: c, resourceClaimTemplateName: TEMPLATE}], containers: [{name: main, resources: {claims: [{name: c}]}}]}}}\n"
)

// TestWorld: the objects of the input exist, in whatever file and folder; what it has none of is not known.
func TestWorld(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"all there":              {map[string]string{"a/class.yaml": worldClass, "b/claim.yaml": strings.ReplaceAll(worldClaim, "CLASS", "card.example.com"), "pod.yaml": strings.ReplaceAll(worldPod, "TEMPLATE", "cards")}, ""},
		"another class":          {map[string]string{"a.yaml": worldClass, "b.yaml": strings.ReplaceAll(worldClaim, "CLASS", "cart.example.com")}, `warning: ResourceClaimTemplate lab/cards: spec.spec.devices.requests[a].exactly.deviceClassName: there is no DeviceClass "cart.example.com": did you mean card.example.com? [class-exists]`},
		"no class":               {map[string]string{"b.yaml": strings.ReplaceAll(worldClaim, "CLASS", "cart.example.com")}, ""},
		"another template":       {map[string]string{"b.yaml": strings.ReplaceAll(worldClaim, "CLASS", "x"), "pod.yaml": strings.ReplaceAll(worldPod, "TEMPLATE", "card")}, `error: StatefulSet lab/s: spec.template.spec.resourceClaims[0].resourceClaimTemplateName: there is no ResourceClaimTemplate "card" in the namespace lab: did you mean cards? [pod-claim-exists]`},
		"no template":            {map[string]string{"pod.yaml": worldPod}, `warning: StatefulSet lab/s: spec.template.spec.resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate "TEMPLATE" is not in the input`},
		"severity of the site":   {map[string]string{".dra-steward.yaml": "apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\nrules: {class-exists: {severity: warning}}\n", "a.yaml": worldClass, "b.yaml": strings.ReplaceAll(worldClaim, "CLASS", "x")}, "warning: ResourceClaimTemplate lab/cards"},
		"pods of other programs": {map[string]string{"a.yaml": worldClass, "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main, image: x}]}\n"}, ""},
	} {
		folder := t.TempDir()
		for file, text := range test.files {
			file = filepath.Join(folder, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := linter(t)
		l.Sites.File = nil
		var said []string
		for result := range l.Run(folder) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for _, r := range result.Reports {
				said = append(said, r.String())
			}
		}
		if test.want == "" && len(said) > 0 || test.want != "" && (len(said) != 1 || !strings.Contains(said[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, said, test.want)
		}
	}
}

// TestWorldOfStandardInput: it is read twice, once from where it comes.
func TestWorldOfStandardInput(t *testing.T) {
	l := linter(t)
	l.Reader.Stdin = strings.NewReader(strings.ReplaceAll(worldPod, "TEMPLATE", "card") + "---\n" + strings.ReplaceAll(worldClaim, "CLASS", "x"))
	l.Sites.Existing = &existing.Objects{}
	var said strings.Builder
	for result := range l.Run(manifest.Stdin) {
		for _, r := range result.Reports {
			said.WriteString(r.String() + "\n")
		}
	}
	if !strings.Contains(said.String(), "did you mean cards?") || !strings.Contains(said.String(), "warning: ResourceClaimTemplate lab/cards: spec.spec.devices.requests[a].exactly.deviceClassName: Not found") {
		t.Error(said.String())
	}
}

// TestStdinWithoutTemporaryFiles: an image has no folder for them. What is small is read twice all the same, and what is
// large has a clear error.
func TestStdinWithoutTemporaryFiles(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	for times, want := range map[int]string{1: "", inMemory: "standard input has more than 4 MiB"} {
		l := linter(t)
		l.Reader.Stdin = strings.NewReader(strings.ReplaceAll(worldClaim, "CLASS", "x") + "---\n" + strings.Repeat("#", times))
		for result := range l.Run(manifest.Stdin) {
			if got := fmt.Sprint(result.Err); want == "" && result.Err != nil || !strings.Contains(got, want) {
				t.Errorf("%d: %s, want %q", times, got, want)
			}
		}
	}
}
