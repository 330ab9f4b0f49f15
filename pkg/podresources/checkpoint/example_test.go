package checkpoint_test

import (
	"errors"
	"fmt"

	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// The kubelet's checkpoint names the claims that are prepared on the node.
func ExampleReadDRA() {
	claims, err := checkpoint.ReadDRA("testdata/" + checkpoint.DRAFile)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, claim := range claims {
		for _, device := range claim.Devices {
			fmt.Println(claim.Name, device.Driver, device.Device)
		}
	}
	// Output:
	// two gpu.example.com gpu-0
	// two gpu.example.com gpu-1
}

// The checkpoint of the device manager names the devices of device plugins.
func ExampleReadDevicePlugins() {
	allocations, err := checkpoint.ReadDevicePlugins("testdata/" + checkpoint.DevicePluginsFile)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range allocations {
		fmt.Println(a.Container, a.Resource, a.DeviceIDs)
	}
	// Output:
	// main vendor.example/gpu [a b c]
	// main vendor.example/nic [n]
}

// A checkpoint that was cut off is not read.
func ExampleDRA() {
	_, err := checkpoint.DRA([]byte(`{"Data": "{}", "Checksum": 1}`))
	fmt.Println(errors.Is(err, checkpoint.ErrChecksum))
	// Output: true
}
