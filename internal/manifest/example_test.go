package manifest_test

import (
	"fmt"
	"strings"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

func Example() {
	stream := strings.NewReader(`# Two objects, of which one is not ours.
apiVersion: v1
kind: Namespace
metadata:
  name: team
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata:
  name: gpu
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.example.com
      cuont: 2
`)
	for document, err := range (manifest.Reader{}).Read("claim.yaml", stream) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		if !document.Ours() {
			fmt.Println("skipped:", document.Kind, document.Name)
			continue
		}
		if version, ok := document.Version(); ok && version.OffByDefault {
			fmt.Println("off by default:", version)
		}
		object, problems := manifest.Decode(document)
		for _, problem := range problems {
			fmt.Printf("%s:%d:%d: %v\n", document.File, problem.Line, problem.Column, problem)
		}
		line, column := document.Position("spec.devices.requests[0].exactly.deviceClassName")
		fmt.Printf("%T %s, class named at %d:%d\n", object, object.GetName(), line, column)
	}
	// Output:
	// skipped: Namespace team
	// off by default: v1beta1 (1.32 until 1.38)
	// claim.yaml:16:7: spec.devices.requests[0].cuont: unknown field: did you mean "count"?
	// *v1.ResourceClaim gpu, class named at 15:7
}
