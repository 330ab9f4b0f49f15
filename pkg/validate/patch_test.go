package validate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// rack is a world of slices with 100 devices each, which have an attribute n.
func rack(slices int) *Objects {
	clusterView := &Objects{}
	for i := range slices {
		s := &resourceapi.ResourceSlice{}
		s.Name, s.Spec.Driver, s.Spec.Pool.Name = fmt.Sprintf("slice-%03d", i), "gpu.example.com", fmt.Sprintf("node-%03d", i)
		for j := range 100 {
			n := int64(j)
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", j),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"n": {IntValue: &n}}})
		}
		clusterView.Add(s)
	}
	return clusterView
}

func patched(expression string) *v1alpha1.ResourceSlicePatch {
	p, one := &v1alpha1.ResourceSlicePatch{}, int64(7)
	p.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"gpu.example.com/n":  {DeviceAttribute: resourceapi.DeviceAttribute{IntValue: &one}},
		"rack.example.com/n": {DeviceAttribute: resourceapi.DeviceAttribute{IntValue: &one}},
	}
	if expression != "" {
		p.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}
	}
	return p
}

// TestPatchEffect: what an author reads of a patch, with bounds on how long it takes.
func TestPatchEffect(t *testing.T) {
	ten := "[1,2,3,4,5,6,7,8,9,10]"
	costly := fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a + b + c + d > 0))))", ten)
	for name, tt := range map[string]struct {
		slices           int
		expression, want string
	}{
		"all":              {2, "", "matches 200 devices in 2 ResourceSlices: replaces gpu.example.com/n in 198, adds rack.example.com/n in 200"},
		"one of each":      {2, `device.attributes["gpu.example.com"].n == 7`, "matches 2 devices in 2 ResourceSlices: adds rack.example.com/n in 2"},
		"none":             {2, "false", ""},
		"does not compile": {2, "nonsense", ""},
		"too many":         {101, "", "matches 10000 devices in 100 ResourceSlices (of the first 10000 that driver and pool select): replaces gpu.example.com/n in 9900, adds rack.example.com/n in 10000"},
		"too costly":       {2, costly, ""},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := Conditions{ClusterView: rack(tt.slices), Expressions: &Expressions{}}
			if got := PatchEffect(patched(tt.expression), conditions); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
	if got := PatchEffect(patched(""), Conditions{}); got != "" {
		t.Errorf("without a world: %q", got)
	}
	if got := ResourceSlicePatch().Validate(patched(costly), Conditions{ClusterView: rack(1)}); len(got) > 0 && strings.Contains(got.ToAggregate().Error(), "no device matches") {
		t.Errorf("what was not tried is said to match nothing: %v", got)
	}
}

// TestCostlyPatches holds that a patch is denied whose expressions cost too much for the devices
// of a slice, whatever time there is, and that what has no time is only not known.
func TestCostlyPatches(t *testing.T) {
	costly := "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a + b + c > 0)))"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{nil, ended} {
		c := Conditions{Context: ctx, ClusterView: rack(2)}
		if got := ResourceSlicePatch().InCluster().Validate(patched(costly), c); !strings.Contains(got.ToAggregate().Error(), "slice-000: too expensive: the expressions cost more than 100000") || len(got) == 0 || got[0].Origin != "patch-cost" {
			t.Errorf("a costly patch: %v", got)
		}
		got := ResourceSlicePatch().InCluster().Validate(patched("device.driver == 'gpu.example.com'"), c)
		late := len(got) == 1 && got[0].Origin == PatchOutcome && strings.Contains(got[0].Detail, "the outcome is not known")
		if late != (ctx != nil) {
			t.Errorf("a cheap patch: %v", got)
		}
		if _, old := ResourceSlicePatch().InCluster().ValidateUpdate(patched(costly), patched(costly), c); len(old) == 0 {
			t.Errorf("a costly patch that is stored: %v", old)
		}
	}
	drain := &v1alpha1.DeviceDrain{}
	drain.Spec.Selector = &v1alpha1.DrainSelector{Selectors: patched("device.driver == 'gpu.example.com'").Spec.Devices.Filter.Selectors}
	if got := drainDevicesExist(drain, newPass(Conditions{Context: ended, ClusterView: rack(2)})); len(got) != 1 || got[0].Type != field.ErrorTypeInternal {
		t.Errorf("a drain: %v", got)
	}
}
