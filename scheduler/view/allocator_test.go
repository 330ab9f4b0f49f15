package view_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/scheduler/view"
)

// TestInvalidValues: a value that is invalid in a slice stops no allocation, whether a patch or
// the record of a slice has it.
func TestInvalidValues(t *testing.T) {
	step := resourceapi.DeviceCapacity{Value: resource.MustParse("80Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: ptr.To(resource.MustParse("1Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1Gi")), Step: ptr.To(resource.MustParse("0"))}}}
	const recordedStep = `{"d":["bad"],"g":[{"n":"memory","c":true,"p":"x","o":{"c":{"value":"80Gi","requestPolicy":{"default":"1Gi","validRange":{"min":"1Gi","step":"0"}}}},"w":{"c":{"value":"80Gi"}},"d":[0]}]}`
	for name, tt := range map[string]struct {
		shown   []*resourceapi.ResourceSlice
		request string
	}{
		"step of a patch":                 {withPatch(step), "2Gi"},
		"negative capacity of a patch":    {withPatch(resourceapi.DeviceCapacity{Value: resource.MustParse("-2Gi")}), ""},
		"step of a record":                {withRecord(recordedStep), "2Gi"},
		"version attribute of a record":   {withRecord(`{"d":["bad"],"g":[{"n":"version","p":"x","o":{"a":{"version":"none"}},"d":[0]}]}`), ""},
		"attribute without value, record": {withRecord(`{"d":["bad"],"g":[{"n":"version","p":"x","o":{"a":{}},"d":[0]}]}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := allocate(t, tt.shown, tt.request); err != nil || got != "bad" {
				t.Errorf("allocated %q, %v", got, err)
			}
		})
	}
}

// withPatch shows a slice whose first device has a patch with a capacity.
func withPatch(memory resourceapi.DeviceCapacity) []*resourceapi.ResourceSlice {
	p := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}}
	p.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Device: ptr.To("bad")}
	p.Spec.Devices.Capacity = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{"gpu.example.com/memory": memory}
	var v view.View
	v.Put(p, nil)
	published := []*resourceapi.ResourceSlice{sharedDevices()}
	v.Rebuild(published, time.Unix(1e9, 0))
	return v.List(published, time.Unix(1e9, 0))
}

// withRecord shows a slice with the text of a record.
func withRecord(text string) []*resourceapi.ResourceSlice {
	var v view.View
	v.Written(true)
	published := []*resourceapi.ResourceSlice{record.With(sharedDevices(), text)}
	v.Rebuild(published, time.Unix(1e9, 0))
	return v.List(published, time.Unix(1e9, 0))
}

// sharedDevices is a slice with the devices bad and good, whose 80Gi claims share.
func sharedDevices() *resourceapi.ResourceSlice {
	device := func(name string) resourceapi.Device {
		return resourceapi.Device{Name: name, AllowMultipleAllocations: ptr.To(true),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}}
	}
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: ptr.To("node-0"), Pool: resourceapi.ResourcePool{Name: "node-0", ResourceSliceCount: 1, Generation: 1},
		Devices: []resourceapi.Device{device("bad"), device("good")},
	}}
}

// allocate returns the device that kube-scheduler allocates with its default feature gates, and a
// panic as an error.
func allocate(t *testing.T, shown []*resourceapi.ResourceSlice, memory string) (device string, err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	features := structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
		DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true}
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	allocator, err := structured.NewAllocator(t.Context(), features, state, gpuClass{}, shown, dracel.NewCache(10, dracel.Features{EnableConsumableCapacity: true}))
	if err != nil {
		return "", err
	}
	request := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	if memory != "" {
		request.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}}
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "c"}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: request}}}}}
	results, err := allocator.Allocate(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}, []*resourceapi.ResourceClaim{claim})
	if err != nil || len(results) == 0 {
		return "", err
	}
	return results[0].Devices.Results[0].Device, nil
}

type gpuClass struct{}

func (gpuClass) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

// Get returns a class of all devices of the driver.
func (gpuClass) Get(name string) (*resourceapi.DeviceClass, error) {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}}}, nil
}
