package validate_test

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A rule is a value, so that a driver's CI can add its own to ours. It needs an ID for
// messages and a check; the table does the ratcheting.
func Example_yourOwnRule() {
	rules := slices.Concat(validate.ResourceSlice().InCluster(), validate.Table[*resourceapi.ResourceSlice]{{
		ID: "gpu-has-memory",
		Doc: `Every GPU says how much memory it has.

Our users select by memory; a GPU without it is never chosen.`,
		Category: validate.Gap,
		Check: func(slice *resourceapi.ResourceSlice, _ validate.Pass) (errs field.ErrorList) {
			for at, device := range validate.Devices(slice) {
				if _, has := device.Capacity["memory"]; !has && strings.HasPrefix(device.Name, "gpu-") {
					errs = append(errs, field.Required(at.Child("capacity").Key("memory"), "users select GPUs by memory"))
				}
			}
			return errs
		},
	}})

	stored := &resourceapi.ResourceSlice{}
	stored.Spec.Devices = []resourceapi.Device{{Name: "gpu-0"}, {Name: "nic-0"}}
	for _, err := range rules.Validate(stored, validate.Conditions{}) {
		fmt.Println("created:", err)
	}

	written := stored.DeepCopy()
	written.Spec.Devices = append(written.Spec.Devices, resourceapi.Device{Name: "gpu-1"})
	errs, tolerated := rules.ValidateUpdate(stored, written, validate.Conditions{})
	for _, err := range errs {
		fmt.Println("new:", err)
	}
	for _, err := range tolerated {
		fmt.Printf("as before: %v (%s)\n", err, err.Origin)
	}

	// Output:
	// created: spec.devices[gpu-0].capacity[memory]: Required value: users select GPUs by memory
	// new: spec.devices[gpu-1].capacity[memory]: Required value: users select GPUs by memory
	// as before: spec.devices[gpu-0].capacity[memory]: Required value: users select GPUs by memory (gpu-has-memory)
}
