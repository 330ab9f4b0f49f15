package placement_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// classes are those of one name.
type classes struct{ class *resourceapi.DeviceClass }

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{c.class}, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if name != c.class.Name {
		return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
	}
	return c.class, nil
}

func selectors(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// TestHostileSelectorsEnd holds that the allocator never evaluates what is too expensive, in a
// class or in a claim, and that the answer is neither yes nor no.
func TestHostileSelectorsEnd(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: hostile.Driver, NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: "n1", ResourceSliceCount: 1}, Devices: []resourceapi.Device{hostile.Device("gpu-0")}}}
	features := structured.Features{ConsumableCapacity: true, ListTypeAttributes: true}
	cache := placement.NewCache(features)
	for i, expression := range append(hostile.Expressions(), "device.driver == 'gpu.example.com'") {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
		request := resourceapi.DeviceRequest{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}
		if i%2 == 0 {
			class.Spec.Selectors = selectors(expression)
		} else {
			request.Exactly.Selectors = selectors(expression)
		}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}}}
		a := placement.Allocator{Features: features, State: placement.Allocated(func(func(*resourceapi.ResourceClaim) bool) {}, features), Classes: classes{class}, Cache: cache,
			Slices: func(string) []*resourceapi.ResourceSlice { return []*resourceapi.ResourceSlice{slice} }}
		took := hostile.Takes(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			results, message, err := a.On(ctx, node, []*resourceapi.ResourceClaim{claim})
			costly := errors.Is(err, placement.ErrSlow) || errors.Is(err, context.DeadlineExceeded)
			if last := i == len(hostile.Expressions()); costly == last && !errors.Is(err, context.DeadlineExceeded) || last && len(results) != 1 {
				t.Errorf("%.200s: got %v, %q and the error %v", expression, results, message, err)
			}
		})
		if took > hostile.Within {
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}
