package validate_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A site sets limits that are lower than those of the API server.
func ExampleLimits() {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "training"}}
	for _, name := range []string{"a", "b", "c"} {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		}})
	}
	for _, err := range validate.ResourceClaim().Validate(claim, validate.Conditions{Limits: validate.Limits{RequestsPerClaim: 2}}) {
		fmt.Println(err.Origin, err)
	}
	// Output:
	// claim-requests-max spec.devices.requests: Too many: 3: must have at most 2 items
}

// A limit above that of the API server is an error.
func ExampleLimits_Validate() {
	fmt.Println(validate.Limits{DevicesPerSlice: 1000}.Validate())
	// Output:
	// limits.devicesPerSlice: Invalid value: 1000: must be between 1 and 128 (ResourceSliceMaxDevices), or 0 or absent for 128
}

// On update, a problem that the stored object has too is a warning.
func ExampleTable_ValidateUpdate() {
	node := "node-1"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpu"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node,
		Pool:    resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}
	changed := slice.DeepCopy()
	changed.Labels = map[string]string{"rack": "7"}
	denials, warnings := validate.ResourceSlice().ValidateUpdate(slice, changed, validate.Conditions{Limits: validate.Limits{DevicesPerSlice: 1}})
	fmt.Println(len(denials), len(warnings))
	// Output: 0 1
}

// The severity of a rule has a name in the configuration.
func ExampleParseSeverity() {
	severity, err := validate.ParseSeverity("warning")
	fmt.Println(severity == validate.Warning, err)
	_, err = validate.ParseSeverity("fatal")
	fmt.Println(err)
	// Output:
	// true <nil>
	// severity "fatal": must be error, warning, audit or off
}

// The limits are documented with the API server's constants.
func ExampleLimitFields() {
	for _, f := range validate.LimitFields()[:2] {
		fmt.Println(f.Name, f.Upstream, f.Constant)
	}
	// Output:
	// devicesPerSlice 128 ResourceSliceMaxDevices
	// devicesPerAdvancedSlice 64 ResourceSliceMaxDevicesWithAdvancedFeatures
}
