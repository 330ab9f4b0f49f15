package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// notWhole is why a document of our groups is not checked, since it is not what the API server gets; empty if it is.
func (w *world) notWhole(document *manifest.Document) (why string) {
	raw := document.Raw
	var fields struct {
		SOPS map[string]any `json:"sops"`
	}
	switch {
	case bytes.Contains(raw, []byte(`"sops"`)) && json.Unmarshal(raw, &fields) == nil && fields.SOPS != nil:
		return fmt.Sprintf("encrypted by SOPS: check what it decrypts to, sops decrypt %s | dra-steward lint -", document.File)
	case bytes.Contains(raw, []byte(`"$patch"`)), w != nil && w.patches[filepath.Clean(document.File)]:
		return fmt.Sprintf("a patch of Kustomize: check the result, kustomize build %s | dra-steward lint -", filepath.Dir(document.File))
	}
	return ""
}

// kustomization notes the files that one names as patches.
func (w *world) kustomization(document *manifest.Document) {
	var k struct {
		Patches, PatchesJSON6902 []struct{ Path string }
		PatchesStrategicMerge    []string
	}
	if json.Unmarshal(document.Raw, &k) != nil {
		return // the check of the file reports nothing: it is of another group
	}
	for _, patch := range append(k.Patches, k.PatchesJSON6902...) {
		k.PatchesStrategicMerge = append(k.PatchesStrategicMerge, patch.Path)
	}
	for _, path := range k.PatchesStrategicMerge {
		if path == "" {
			continue
		}
		if w.patches == nil {
			w.patches = map[string]bool{}
		}
		w.patches[filepath.Join(filepath.Dir(document.File), path)] = true
	}
}
