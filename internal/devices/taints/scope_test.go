package taints_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// scope has two nodes with two devices each, a pool that spans both nodes, and a pod with a
// claim for a device of each driver.
func scope() taints.Scope {
	slice := func(driver, pool string, node *string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + pool}}
		s.Spec.Driver, s.Spec.NodeName, s.Spec.Devices = driver, node, devices
		s.Spec.Pool = resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}
		return s
	}
	one, two := "node-1", "node-2"
	view := tracker.Merge(
		slice("gpu.example.com", "node-1", &one, resourceapi.Device{Name: "gpu-0"}, resourceapi.Device{Name: "gpu-1"}),
		slice("gpu.example.com", "node-2", &two, resourceapi.Device{Name: "gpu-0"}),
		slice("nic.example.com", "fabric", nil, resourceapi.Device{Name: "a", NodeName: &one}, resourceapi.Device{Name: "b", NodeName: &two}))
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train", UID: "1"}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "train-0", UID: "2"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "nic", Driver: "nic.example.com", Pool: "fabric", Device: "a"}, {Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-1"}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train-0", UID: "2"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim.Name}}
	index := &usage.Index{}
	index.SetClaim(claim)
	index.SetPod(pod)
	return taints.Scope{View: view, Index: index, Namespace: "team-a", Names: func(yield func(usage.DeviceID) bool) {
		for d := range view.Devices() {
			if !yield(usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}) {
				return
			}
		}
	}}
}

// TestScope: what people call a target, and which devices that is.
func TestScope(t *testing.T) {
	s := scope()
	for name, want := range map[string]string{
		"node/node-1":                  "[gpu.example.com/node-1 nic.example.com/fabric/a]",
		"no/node-2":                    "[gpu.example.com/node-2 nic.example.com/fabric/b]",
		"node/node-3":                  "no device is published for node node-3",
		"driver/nic.example.com":       "[nic.example.com]",
		"driver/nic":                   `no driver "nic"`,
		"claim/train":                  "[gpu.example.com/node-1/gpu-1 nic.example.com/fabric/a]",
		"resourceclaims/train":         "[gpu.example.com/node-1/gpu-1 nic.example.com/fabric/a]",
		"claim/other":                  `no allocated claim "other" in namespace "team-a"`,
		"pod/train-0":                  "[gpu.example.com/node-1/gpu-1 nic.example.com/fabric/a]",
		"pod/train-1":                  `no pod "train-1" with claims in namespace "team-a"`,
		"gpu.example.com/node-1/gpu-0": "[gpu.example.com/node-1/gpu-0]",
		"node-1/gpu-0":                 "[gpu.example.com/node-1/gpu-0]",
		"gpu.example.com":              "[gpu.example.com]",
		"deployment/web":               "no device, pool or driver",
	} {
		found, err := s.Resolve(name)
		if got := fmt.Sprint(found); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	found, err := s.Resolve("node/node-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Devices(found)); got != "[gpu.example.com/node-1/gpu-0 gpu.example.com/node-1/gpu-1 nic.example.com/fabric/a]" {
		t.Errorf("devices of node-1: %s", got)
	}
}

// TestDevice: a drain names devices, also those that no slice publishes.
func TestDevice(t *testing.T) {
	s := scope()
	for name, want := range map[string]string{
		"gpu.example.com/node-1/gpu-0": "gpu.example.com/node-1/gpu-0 true <nil>",
		"node-1/gpu-0":                 "gpu.example.com/node-1/gpu-0 true <nil>",
		"gpu-1":                        "gpu.example.com/node-1/gpu-1 true <nil>",
		"gpu.example.com/node-1/gpu-9": "gpu.example.com/node-1/gpu-9 false <nil>",
		"gpu.example.com/rack/1/gpu-9": "gpu.example.com/rack/1/gpu-9 false <nil>",
		"gpu-0":                        `// false "gpu-0" matches 2 devices: name one of gpu.example.com/node-1/gpu-0 or gpu.example.com/node-2/gpu-0`,
		"gpu.example.com":              `// false "gpu.example.com" is not a device, but all devices of gpu.example.com`,
		"gpu.example.com/node-1":       `// false "gpu.example.com/node-1" is not a device, but all devices of gpu.example.com/node-1`,
		"node-1/gpu-9":                 `// false no device, pool or driver "node-1/gpu-9"; "dra-steward devices" lists them; did you mean "node-1/gpu-0" or "node-1/gpu-1" or "node-2/gpu-0"?`,
		"node-1":                       `// false no device, pool or driver "node-1": for the devices of the node, use node/node-1`,
		"gpu.example.com/node-1/":      `// false "gpu.example.com/node-1/": must be DRIVER, DRIVER/POOL or DRIVER/POOL/DEVICE`,
	} {
		id, known, err := s.Device(name)
		if got := fmt.Sprint(id, " ", known, " ", err); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range [][2]string{
		{"node a b", "node/a node/b"}, {"node/a pod/b", "node/a pod/b"}, {"node", "node"}, {"gpu-0 gpu-1", "gpu-0 gpu-1"}, {"", ""},
	} {
		if got := taints.Arguments(strings.Fields(tt[0])); !slices.Equal(got, strings.Fields(tt[1])) {
			t.Errorf("%s: %v, want %s", tt[0], got, tt[1])
		}
	}
}
