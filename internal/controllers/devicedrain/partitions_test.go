package devicedrain_test

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// partitioned is a pool of GPUs with n partitions each.
func partitioned(gpus, n int) *tracker.Snapshot {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: new("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}}
	for gpu := range gpus {
		for i := range n {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d-%d", gpu, i),
				ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: fmt.Sprintf("gpu-%d", gpu)}}})
		}
	}
	return tracker.Merge(s)
}

// TestPartitions: a drain names the devices that share counters with its own, and takes them
// along if it is to.
func TestPartitions(t *testing.T) {
	for _, tt := range []struct {
		name          string
		with          bool
		status        []v1alpha1.DrainDevices
		partitions    int
		devices, left int32
		listed        int
		reason        string
	}{
		{name: "without", partitions: 7, devices: 1, left: 6, listed: 6},
		{name: "with", with: true, partitions: 7, devices: 7},
		{name: "begun before they were published", with: true, partitions: 7, devices: 1, left: 6, listed: 6,
			status: []v1alpha1.DrainDevices{{Driver: "gpu.example.com", Pools: []string{"node-1"}, Devices: []string{"gpu-0-0"}}}},
		{name: "many", partitions: 100, devices: 1, left: 99, listed: 64},
		{name: "too many", with: true, partitions: 5000, reason: v1alpha1.BlockedTooManyDevices},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "maintenance", UID: "1"}}
			d.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0-0"}}
			d.Spec.WithPartitions, d.Status.Devices = tt.with, tt.status
			view := partitioned(2, tt.partitions)
			in := drain.Gather(d, view, &usage.Index{}, drain.Published(view, &usage.Index{}))
			in.Now = time.Now()
			got := drain.Decide(in)
			if in.Devices.Reason != tt.reason {
				t.Fatalf("reason %q, want %q: %s", in.Devices.Reason, tt.reason, in.Devices.Message)
			}
			if n := got.Status.Counts; n.Devices != tt.devices || n.Siblings != tt.left || len(got.Status.Siblings) != tt.listed {
				t.Errorf("%d devices, %d siblings of which %d are listed; want %d, %d, %d", n.Devices, n.Siblings, len(got.Status.Siblings), tt.devices, tt.left, tt.listed)
			}
			if tt.listed > 0 && got.Status.Siblings[0] != "gpu.example.com/node-1/gpu-0-1" {
				t.Errorf("siblings %v", got.Status.Siblings)
			}
		})
	}
}
