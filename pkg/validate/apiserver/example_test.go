package apiserver_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// A claim is checked as an API server of a given minor checks it, without one.
func ExampleTable_Validate() {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "training"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: -1,
	}}}
	for _, err := range apiserver.ResourceClaim().Validate(claim, apiserver.Conditions{Profile: apiserver.Profile{Minor: 36}}) {
		fmt.Println(err)
	}
	// Output:
	// spec.devices.requests[gpu].exactly.count: Invalid value: -1: must be greater than zero
}

// A new feature gate is off by default in one minor and on in a later one.
func ExampleProfile_Enabled() {
	for minor := apiserver.OldestMinor; minor <= apiserver.NewestMinor; minor++ {
		fmt.Printf("1.%d %t\n", minor, apiserver.Profile{Minor: minor}.Enabled("DRADeviceTaints"))
	}
	fmt.Println(apiserver.Profile{Minor: 35, Gates: map[apiserver.Gate]bool{"DRADeviceTaints": true}}.Enabled("DRADeviceTaints"))
	// Output:
	// 1.34 false
	// 1.35 false
	// 1.36 true
	// 1.37 true
	// true
}

// An API server drops fields of features that are off. The tables of drops do the same.
func ExampleDrops_Apply() {
	slice := &resourceapi.ResourceSlice{}
	slice.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}}
	dropped := apiserver.ResourceSliceDrops().Apply(nil, slice, false, apiserver.Profile{Minor: 35})
	fmt.Println(dropped, len(slice.Spec.Devices[0].Taints))
	// Output:
	// [spec.devices[].taints are dropped without the feature gate DRADeviceTaints] 0
}

// A profile names gates that the rules know.
func ExampleProfile_Validate() {
	fmt.Println(apiserver.Profile{Minor: 36}.Validate())
	fmt.Println(apiserver.Profile{Minor: 29}.Validate() != nil)
	// Output:
	// <nil>
	// true
}
