package reaction_test

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// serials is a pool of node-1 whose devices have a serial each, as an attribute of the driver.
func serials(values ...string) *resourceapi.ResourceSlice {
	slice := pool("node-1", len(values), 1)
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"serial": {StringValue: &values[i]}}
	}
	return slice
}

// attribute is a patch that gives one device an attribute.
func attribute(device, name, value string) *v1alpha1.ResourceSlicePatch {
	return &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}, Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
		Filter:     &v1alpha1.DevicePatchFilter{Device: &device},
		Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{resourceapi.FullyQualifiedName(name): {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &value}}},
	}}}
}

// written is a slice with a patch, as the webhook stores it.
func written(t *testing.T, slice *resourceapi.ResourceSlice, p *v1alpha1.ResourceSlicePatch) *resourceapi.ResourceSlice {
	t.Helper()
	var set patch.Set
	set.Put(p, nil)
	write, err := record.Read(record.Write{Incoming: slice, Now: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	merged := write.Merge(set.Apply(write.Slice), nil)
	if merged.Refused != nil || merged.Slice == slice {
		t.Fatalf("not written: %v", merged.Refused)
	}
	return merged.Slice
}

// TestPinOfPatched: a proof selects a device by the values that schedulers see. An attribute counts if
// kube-scheduler, which reads what the API server has, and dra-steward-scheduler, which applies
// patches, see the same.
func TestPinOfPatched(t *testing.T) {
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "xid-1", UID: "u"}, Spec: v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{device("node-1", 1)}}}
	cordon := rule("cordon", "xid-1", "gpu-1")
	cordon.Spec.Taint = resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Value: "xid-1", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	r := &v1alpha1.DeviceReaction{Spec: v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid"}}}}
	const serial, none = `device.driver == "gpu.example.com" && "serial" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"]["serial"] == `, "no attribute tells the device"
	for name, tt := range map[string]struct {
		slice   *resourceapi.ResourceSlice
		patch   *v1alpha1.ResourceSlicePatch
		written bool
		want    string
	}{
		"added and written":                {serials("a", "a"), attribute("gpu-1", "example.com/uuid", "u-1"), true, `device.driver == "gpu.example.com" && "uuid" in device.attributes["example.com"] && device.attributes["example.com"]["uuid"] == "u-1"`},
		"added and not written":            {serials("a", "a"), attribute("gpu-1", "example.com/uuid", "u-1"), false, none},
		"changed and written":              {serials("a", "b"), attribute("gpu-1", "gpu.example.com/serial", "c"), true, serial + `"c"`},
		"changed and not written":          {serials("a", "b"), attribute("gpu-1", "gpu.example.com/serial", "c"), false, none},
		"like another and written":         {serials("a", "b"), attribute("gpu-1", "gpu.example.com/serial", "a"), true, none},
		"another is like it":               {serials("a", "b"), attribute("gpu-0", "gpu.example.com/serial", "b"), true, none},
		"another is like it, not written":  {serials("a", "b"), attribute("gpu-0", "gpu.example.com/serial", "b"), false, none},
		"another was like it and is not":   {serials("b", "b"), attribute("gpu-0", "gpu.example.com/serial", "a"), true, serial + `"b"`},
		"another is not like it, to be":    {serials("b", "b"), attribute("gpu-0", "gpu.example.com/serial", "a"), false, none},
		"another attribute, not written":   {serials("a", "b"), attribute("gpu-1", "example.com/rack", "r12"), false, serial + `"b"`},
		"another's attribute, not written": {serials("a", "b"), attribute("gpu-0", "example.com/rack", "r12"), false, serial + `"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			slice := tt.slice
			if tt.written {
				slice = written(t, slice, tt.patch)
			}
			pin, err := reaction.PinOf(r, d, tracker.Merge(slice, tt.patch, cordon))
			got := pin.Expression
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || err == nil && got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
