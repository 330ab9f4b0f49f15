package oracle_test

import (
	"encoding/json"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// BenchmarkBesideUpstream judges new objects by the rules that the API server has too, and
// in the same run has the API server's code of 1.37 judge them by its hand-written
// validation, before and after. Both judge an object that has been read already.
// of-upstream is the ratio of the times: below 1 we are faster.
func BenchmarkBesideUpstream(b *testing.B) {
	for _, devices := range []int{1, 16, 128} {
		benchmarkSlice(b, fmt.Sprintf("slice/devices=%d", devices), benchmarkedSlice(devices, 32, 0))
	}
	benchmarkSlice(b, "slice/devices=64,taints=16", benchmarkedSlice(64, 32, 16))
	for _, requests := range []int{1, 32} {
		benchmarkClaim(b, fmt.Sprintf("claim/requests=%d", requests), benchmarkedClaim(requests, 0))
	}
	benchmarkClaim(b, "claim/requests=32,selectors=1", benchmarkedClaim(32, 1))
}

func benchmarkSlice(b *testing.B, name string, slice *resourceapi.ResourceSlice) {
	b.Helper()
	measureBoth(b, name, slice, func() field.ErrorList { return mirrorSlice.Validate(slice, apiserver.Conditions{}) })
}

func benchmarkClaim(b *testing.B, name string, claim *resourceapi.ResourceClaim) {
	b.Helper()
	measureBoth(b, name, claim, func() field.ErrorList { return mirrorClaim.Validate(claim, apiserver.Conditions{}) })
}

var mirrorSlice, mirrorClaim = validate.ResourceSlice().Upstream(), validate.ResourceClaim().Upstream()

func measureBoth(b *testing.B, name string, object any, ours func() field.ErrorList) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		o, err := newest()
		if err != nil {
			b.Fatal(err)
		}
		before := upstream(b, o, object)
		b.ReportAllocs()
		for b.Loop() {
			if errs := ours(); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
		mine := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
		after := upstream(b, o, object)
		theirs := (before.Nanoseconds + after.Nanoseconds) / 2
		b.ReportMetric(theirs, "upstream-ns/op")
		b.ReportMetric(mine/theirs, "of-upstream")
		b.ReportMetric(float64(after.Allocations), "upstream-allocs/op")
	})
}

func upstream(b *testing.B, o interface {
	Judge([]wire.Case) ([]wire.Answer, error)
}, object any) *wire.Measured {
	b.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	answers, err := o.Judge([]wire.Case{{ID: b.Name(), Op: wire.Measure, Object: data}})
	if err != nil {
		b.Fatal(err)
	}
	if measured := answers[0].Measured; measured != nil && measured.Errors == 0 {
		return measured
	}
	b.Fatalf("no measurement: %+v", answers[0])
	return nil
}

func benchmarkedSlice(devices, attributes, taints int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: new("worker-1"),
			Pool: resourceapi.ResourcePool{Name: "worker-1", Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range devices {
		device := resourceapi.Device{
			Name:       fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
		}
		for j := range attributes - 1 {
			device.Attributes[resourceapi.QualifiedName(fmt.Sprint("attribute", j))] = resourceapi.DeviceAttribute{StringValue: new("some-value")}
		}
		for j := range taints {
			device.Taints = append(device.Taints, resourceapi.DeviceTaint{Key: fmt.Sprint("example.com/unhealthy-", j), Value: "yes", Effect: resourceapi.DeviceTaintEffectNoExecute})
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

func benchmarkedClaim(requests, selectors int) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "default"},
	}
	for i := range requests {
		exactly := &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Tolerations: []resourceapi.DeviceToleration{{Key: "example.com/unhealthy", Operator: resourceapi.DeviceTolerationOpExists}},
		}
		for j := range selectors {
			expression := fmt.Sprintf(`device.attributes["gpu.example.com"].index == %d`, 100*i+j)
			exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint("gpu-", i), Exactly: exactly})
	}
	return claim
}
