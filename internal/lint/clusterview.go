package lint

import (
	"fmt"
	"slices"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// crossObjectKinds are the kinds that other objects are checked by.
var crossObjectKinds = []string{"DeviceClass", "ResourceSlice", v1alpha1.ResourceSlicePatchKind, "ResourceClaim"}

// ClusterView reads the DeviceClasses, ResourceSlices, ResourceSlicePatches and ResourceClaims in
// files: what exists, for the rules that look beyond one object. What cannot be read is an error, since everything would
// look as if it were not there. No files are no world.
func ClusterView(reader manifest.Reader, files []string) (validate.ClusterView, error) {
	if len(files) == 0 {
		return nil, nil
	}
	world := &validate.Objects{}
	for document, err := range reader.Walk(files...) {
		if err != nil {
			return nil, err
		}
		if !document.Ours() || !slices.Contains(crossObjectKinds, document.Kind) {
			continue
		}
		object, problems := manifest.Decode(document)
		if object == nil {
			return nil, fmt.Errorf("%s:%d: %s %s: %v", document.File, document.Line, document.Kind, document.Name, problems[0])
		}
		world.Add(object)
	}
	return world, nil
}
