package device

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/why"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestWhyLarge: the answer for a large cluster has a line for each reason, and not for each
// device; JSON and -o wide have all devices. The time for a device does not grow with the
// number of nodes.
func TestWhyLarge(t *testing.T) {
	perDevice := map[int]time.Duration{}
	for _, nodes := range []int{375, 5000} {
		w, claim := fleet(nodes, 8)
		begin := time.Now()
		answer, err := w.ExplainClaim(t.Context(), claim, nil)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		perDevice[nodes] = took / time.Duration(8*nodes)
		t.Logf("%d nodes, %d devices: %v", nodes, 8*nodes, took)
		var text, wide bytes.Buffer
		if err := writeWhy(&text, "claim team-a/train", answer, false); err != nil {
			t.Fatal(err)
		}
		if err := writeWhy(&wide, "claim team-a/train", answer, true); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) > 25 || !strings.Contains(lines[0], "would fit, but the claim does not tolerate taint example.com/t") || strings.Count(text.String(), "ClassSelector") != 1 {
			t.Errorf("%d lines:\n%s", len(lines), text.String())
		}
		if got := len(answer.Claims[0].Requests[0].Devices); got != 8*nodes || strings.Count(wide.String(), "\n") < got {
			t.Errorf("%d nodes: JSON has %d devices, wide %d lines", nodes, got, strings.Count(wide.String(), "\n"))
		}
	}
	if perDevice[5000] > 6*perDevice[375] { // 13 times if the work is quadratic
		t.Errorf("a device takes %v with 5,000 nodes, %v with 375", perDevice[5000], perDevice[375])
	}
}

// fleet is a cluster in which no device is suitable for the claim: every fifth node has
// devices of another driver, devices of another model, tainted devices, devices that are in
// use, or an incomplete pool.
func fleet(nodes, devices int) (why.Cluster, *resourceapi.ResourceClaim) {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	objects := []any{class}
	w := why.Cluster{}
	for i := range nodes {
		node, driver, model := fmt.Sprintf("node-%04d", i), "gpu.example.com", "A100"
		var taints []resourceapi.DeviceTaint
		var results []resourceapi.DeviceRequestAllocationResult
		switch i % 5 {
		case 0:
			driver = fmt.Sprintf("nic-%d.example.com", i%3)
		case 1:
			model = "T4"
		case 2:
			taints = []resourceapi.DeviceTaint{{Key: fmt.Sprintf("example.com/t%d", i), Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(1 + i%5/4)}}
		for n := range devices {
			name := fmt.Sprintf("gpu-%d", n)
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name, Taints: taints,
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}})
			results = append(results, resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: node, Device: name})
		}
		if i%5 == 3 {
			holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: node}}
			holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
			w.Claims = append(w.Claims, holder)
		}
		objects = append(objects, slice)
	}
	w.View = tracker.Merge(objects...)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "A100"`}}}}}}
	return w, claim
}

// TestWhyPartial: a remedy that is not enough is not presented as one.
func TestWhyPartial(t *testing.T) {
	for want, cause := range map[string]why.Cause{
		"pod team-a/p: m\n  to fix it: r: c\n":                              {Kind: why.DevicesTaken, Message: "m", Remedy: "r", Command: "c", Sufficient: true},
		"pod team-a/p: m\n  no single change suffices; one of them: r: c\n": {Kind: why.DevicesTaken, Message: "m", Remedy: "r", Command: "c"},
		"pod team-a/p: m\\u000ax\n  to fix it: r\n":                         {Kind: why.QuotaExceeded, Message: "m\nx", Remedy: "r"},
		"pod team-a/p: m2\n":                                                {Kind: why.Combination, Message: "m2"},
	} {
		var text bytes.Buffer
		writeCause(&text, "pod team-a/p", why.Answer{Cause: &cause})
		if text.String() != want {
			t.Errorf("got %q, want %q", text.String(), want)
		}
	}
}
