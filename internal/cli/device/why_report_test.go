package device

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/why"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestWhyLarge: with 375 nodes, each with a device of another reason for its claim, the
// answer still fits a screen, and devices of other drivers take one line.
func TestWhyLarge(t *testing.T) {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	objects := []any{class}
	w := why.World{}
	for i := range 375 {
		node, driver, model := fmt.Sprintf("node-%03d", i), "gpu.example.com", "A100"
		if i%5 == 0 {
			driver = fmt.Sprintf("nic-%d.example.com", i%3)
		}
		device := resourceapi.Device{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}}
		switch i % 5 {
		case 1:
			model = "T4"
		case 2:
			device.Taints = []resourceapi.DeviceTaint{{Key: fmt.Sprintf("example.com/t%d", i), Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		case 3:
			holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: node}}
			holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: node, Device: "gpu-0"}}}}
			w.Claims = append(w.Claims, holder)
		}
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Devices: []resourceapi.Device{device},
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(1 + i%5/4)}}
		objects = append(objects, slice)
	}
	w.View = tracker.Merge(objects...)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "A100"`}}}}}}
	answer, err := w.ExplainClaim(t.Context(), claim, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text, wide bytes.Buffer
	if err := writeWhy(&text, "claim team-a/train", answer, false); err != nil {
		t.Fatal(err)
	}
	if err := writeWhy(&wide, "claim team-a/train", answer, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) > 25 || !strings.Contains(lines[0], "is suitable without taint example.com/t") || strings.Count(text.String(), "ClassSelector") != 1 {
		t.Errorf("%d lines:\n%s", len(lines), text.String())
	}
	if len(answer.Claims[0].Requests[0].Devices) != 375 || strings.Count(wide.String(), "\n") < 375 {
		t.Errorf("json and wide do not have all devices:\n%s", wide.String())
	}
}

// TestWhyPartial: a remedy that is not enough is not presented as one.
func TestWhyPartial(t *testing.T) {
	for want, cause := range map[string]why.Cause{
		"pod team-a/p: m\n  to change it, r: c\n":                           {Kind: why.DevicesTaken, Message: "m", Remedy: "r", Command: "c", Sufficient: true},
		"pod team-a/p: m\n  no single change suffices; one of them: r: c\n": {Kind: why.DevicesTaken, Message: "m", Remedy: "r", Command: "c"},
		"pod team-a/p: m\\nx\n  to change it, r\n":                          {Kind: why.QuotaExceeded, Message: "m\nx", Remedy: "r"},
		"pod team-a/p: m2\n":                                                {Kind: why.Combination, Message: "m2"},
	} {
		var text bytes.Buffer
		writeCause(&text, "pod team-a/p", why.Answer{Cause: &cause})
		if text.String() != want {
			t.Errorf("got %q, want %q", text.String(), want)
		}
	}
}
