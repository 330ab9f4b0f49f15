package usage_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestTaken: a shared device is full where not even the smallest share is left, and admin access has nothing.
func TestTaken(t *testing.T) {
	shared := func(total string, policy *resourceapi.CapacityRequestPolicy) *resourceapi.Device {
		return &resourceapi.Device{Name: "cpu", AllowMultipleAllocations: new(true), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"cpu": {Value: resource.MustParse(total), RequestPolicy: policy}}}
	}
	share := func(cpu string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{ShareID: new(types.UID("s")), ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"cpu": resource.MustParse(cpu)}}
	}
	admin := resourceapi.DeviceRequestAllocationResult{AdminAccess: new(true)}
	whole := resourceapi.DeviceRequestAllocationResult{}
	ranged := &resourceapi.CapacityRequestPolicy{Default: new(resource.MustParse("4")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: new(resource.MustParse("2"))}}
	listed := &resourceapi.CapacityRequestPolicy{Default: new(resource.MustParse("4")), ValidValues: []resource.Quantity{resource.MustParse("1"), resource.MustParse("4")}}
	type results = []resourceapi.DeviceRequestAllocationResult
	for name, test := range map[string]struct {
		device *resourceapi.Device
		has    results
		want   bool
	}{
		"nothing":                          {shared("2", nil), nil, false},
		"a monitor of a whole device":      {&resourceapi.Device{}, results{admin}, false},
		"a whole device":                   {&resourceapi.Device{}, results{admin, whole}, true},
		"half of it, all by default":       {shared("2", nil), results{share("1")}, false},
		"nearly all":                       {shared("2", nil), results{share("1"), share("999m")}, false},
		"all":                              {shared("2", nil), results{share("1"), share("1")}, true},
		"no capacity to consume":           {shared("0", nil), results{share("0")}, false},
		"less than the default is left":    {shared("8", ranged), results{share("5")}, false},
		"less than the least is left":      {shared("8", ranged), results{share("7")}, true},
		"the least of the values is left":  {shared("8", listed), results{share("4"), share("3")}, false},
		"shares of what is shared no more": {&resourceapi.Device{}, results{share("1")}, true},
	} {
		var use usage.Taken
		for _, r := range test.has {
			use.Add(r)
		}
		if got := use.Full(test.device); got != test.want {
			t.Errorf("%s: full is %t", name, got)
		}
	}
}
