package apiserver_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestSizes: a message about a size says what is too large, how large it is and what the
// limit is.
func TestSizes(t *testing.T) {
	slice := &resourceapi.ResourceSlice{}
	slice.Labels = map[string]string{"example.com/team": strings.Repeat("a", 80), "fine": "b"}
	slice.Annotations = map[string]string{"note": strings.Repeat("n", 1<<18)}
	slice.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		resourceapi.QualifiedName(strings.Repeat("k", 33)): {StringValue: new("x")},
		"model": {StringValue: new(strings.Repeat("m", 65))},
	}}}
	errs := apiserver.ResourceSlice().Validate(slice, apiserver.Conditions{})
	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{}}
	claim.Spec.Devices.Config[0].Opaque = &resourceapi.OpaqueDeviceConfiguration{}
	claim.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`"` + strings.Repeat("p", 10240) + `"`)
	errs = append(errs, apiserver.ResourceClaim().Validate(claim, apiserver.Conditions{})...)
	var said strings.Builder
	for _, err := range errs {
		said.WriteString(err.Error() + "\n")
	}
	for _, want := range []string{
		"label example.com/team: must be no more than 63 bytes, is 80 bytes",
		"metadata.annotations: Too long: keys and values are 262148 bytes together, may not be more than 262144 bytes",
		"Too long: kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk is 33 bytes, may not be more than 32 bytes",
		"attributes[model].string: Too long: is 65 bytes, may not be more than 64 bytes",
		"opaque.parameters: Too long: is 10242 bytes as JSON, may not be more than 10240 bytes",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
}
