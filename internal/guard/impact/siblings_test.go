package impact

import (
	"iter"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestSiblings: the guard names the devices that share counters with selected ones.
func TestSiblings(t *testing.T) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1"}}}
	for _, name := range []string{"part-0", "part-1", "part-2"} {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0"}}})
	}
	i := &Estimator{Index: &usage.Index{}, Published: func() iter.Seq[*resourceapi.ResourceSlice] { return slices.Values([]*resourceapi.ResourceSlice{slice}) }}
	rule := &resourceapi.DeviceTaintRule{}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: new("node-1"), Device: new("part-0")}
	pool := rule.DeepCopy()
	pool.Spec.DeviceSelector.Device = nil
	drain := &v1alpha1.DeviceDrain{}
	drain.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "part-0"}}
	whole := drain.DeepCopy()
	whole.Spec.WithPartitions = true
	const two = "affects no pods: no claim holds these devices; 2 devices that share counters with the selected ones can still be allocated: gpu.example.com/node-1/part-1, gpu.example.com/node-1/part-2"
	for name, tt := range map[string]struct {
		object any
		want   string
	}{
		"rule": {rule, two}, "drain": {drain, two},
		"rule of the pool":      {pool, "affects no pods: no claim holds these devices"},
		"drain with partitions": {whole, "affects no pods: no claim holds these devices"},
	} {
		devices, err := i.devices(tt.object)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := i.count(tt.object, devices)
		if err != nil {
			t.Fatal(err)
		}
		impact := counted.Summary(i.publishedBy())
		impact.Siblings = i.siblings(tt.object, devices)
		if got := impact.String(); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	i.Published = nil
	if _, err := i.devices(whole); err == nil || !strings.Contains(err.Error(), "name all partitions") {
		t.Errorf("without slices: %v", err)
	}
}
