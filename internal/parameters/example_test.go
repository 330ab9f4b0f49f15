package parameters_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/parameters"
)

// A vendor keeps the schema of the driver's parameters beside the driver, and tests the
// driver's examples with it.
func Example() {
	library := &parameters.Library{}
	err := library.Add([]byte(`{
		"x-dra-driver": "fpga.example.com",
		"type": "object",
		"additionalProperties": false,
		"required": ["apiVersion", "kind", "bitstream"],
		"properties": {
			"apiVersion": {"const": "fpga.example.com/v1"},
			"kind": {"const": "FPGAConfig"},
			"bitstream": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "x-message": "must be a digest, sha256:…"}
		}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	found := library.Check(field.NewPath("spec", "devices", "config").Index(0).Child("opaque", "parameters"),
		"fpga.example.com", []byte(`{"apiVersion": "fpga.example.com/v1", "kind": "FPGAConfig", "bitstream": "latest"}`))
	fmt.Println(found.Values.ToAggregate())
	// Output:
	// spec.devices.config[0].opaque.parameters.bitstream: Invalid value: "latest": must be a digest, sha256:…
}
