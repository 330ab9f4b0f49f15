package patch_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A patch corrects what a driver publishes; the result names the source of each value.
func ExampleApply() {
	published := &resourceapi.ResourceSlice{}
	published.Spec.Driver = "gpu.example.com"
	model := "A100"
	published.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: &model},
	}}}

	correct := "A100-80GB"
	object := &v1alpha1.ResourceSlicePatch{}
	object.Name = "models"
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"gpu.example.com/model": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &correct}},
	}

	var compiler patch.Compiler
	result := patch.Apply(published, []*patch.Patch{compiler.Compile(object, nil)})
	fmt.Println(*result.Slice.Spec.Devices[0].Attributes["model"].StringValue)
	for key := range result.Device(0) {
		fmt.Println(key.Spelling, key.Effect, "by", key.Winner.Object.Name)
	}
	// Output:
	// A100-80GB
	// model Replaced by models
}
