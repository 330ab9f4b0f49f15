package scale

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Node returns a node that is ready.
func (c Cluster) Node(node int) *corev1.Node {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName(node), Labels: map[string]string{
			corev1.LabelHostname: NodeName(node), corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", node%3), "example.com/rack": rack(node)}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}},
	}
}

func rack(node int) string { return fmt.Sprintf("rack-%03d", node/16) }

// GPUs returns the slice of the GPUs of a node.
func (c Cluster) GPUs(node int) *resourceapi.ResourceSlice {
	r := c.random("gpus", node)
	model := []struct{ name, architecture, compute, memory string }{
		{"NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0", "80Gi"}, {"NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", "80Gi"}, {"NVIDIA H200", "Hopper", "9.0.0", "141Gi"},
	}[r.IntN(3)]
	slice := sliceOf(GPUDriver, node)
	for i := range PerNode {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: gpuName(i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": text("gpu"), "productName": text(model.name), "brand": text("Nvidia"), "architecture": text(model.architecture),
				"cudaComputeCapability": versionOf(model.compute), "driverVersion": versionOf("580.65.6"), "uuid": text("GPU-" + uuid(r)),
				"resource.kubernetes.io/pcieRoot": text(pcieRoot(i))},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(model.memory)}}})
	}
	return slice
}

// NICs returns the slice of the network interfaces of a node.
func (c Cluster) NICs(node int) *resourceapi.ResourceSlice {
	r := c.random("nics", node)
	slice := sliceOf(NICDriver, node)
	for i := range PerNode {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("nic-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"ifName": text(fmt.Sprintf("rdma%d", i)), "rdma": {BoolValue: new(true)}, "speedGbps": {IntValue: new(int64(400))},
				"mac": text(uuid(r)[:8]), "resource.kubernetes.io/pcieRoot": text(pcieRoot(i))}})
	}
	return slice
}

func sliceOf(driver string, node int) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: NodeName(node) + "-" + driver}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: new(NodeName(node)), Pool: resourceapi.ResourcePool{Name: NodeName(node), Generation: 1, ResourceSliceCount: 1}}}
}

func gpuName(gpu int) string { return fmt.Sprintf("gpu-%d", gpu) }

func pcieRoot(i int) string { return fmt.Sprintf("pci0000:%02x", 16*i) }

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

func versionOf(s string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{VersionValue: &s}
}

func uuid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>16, r.Uint32()>>16, r.Uint64()>>16)
}

// Class returns the class of the devices of a driver.
func Class(driver string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}}}
}

// Rule returns a rule for one node or one of its GPUs, of which no pod has to leave: it informs
// or keeps new claims away. See Cluster.NoExecute for the first.
func (c Cluster) Rule(rule int) *resourceapi.DeviceTaintRule {
	r := c.random("rules", rule)
	effect := resourceapi.DeviceTaintEffectNone
	if rule%2 == 1 {
		effect = resourceapi.DeviceTaintEffectNoSchedule
	}
	selector := &resourceapi.DeviceTaintSelector{Driver: new(GPUDriver), Pool: new(NodeName(r.IntN(c.Nodes)))}
	if rule%4 < 2 {
		selector.Device = new(gpuName(r.IntN(PerNode)))
	}
	if rule == 0 && c.NoExecute {
		effect, selector.Device = resourceapi.DeviceTaintEffectNoExecute, nil
	}
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule-%03d", rule)}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: selector, Taint: resourceapi.DeviceTaint{Key: fmt.Sprintf("%s/fault-%d", GPUDriver, rule%5), Value: "seen", Effect: effect}}}
}

// Patch returns a patch that adds the rack of a node to its GPUs.
func (c Cluster) Patch(patch int) *v1alpha1.ResourceSlicePatch {
	node := c.random("patches", patch).IntN(c.Nodes)
	return &v1alpha1.ResourceSlicePatch{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.ResourceSlicePatchKind},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("patch-%03d", patch)},
		Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
			Filter: &v1alpha1.DevicePatchFilter{Driver: new(GPUDriver), Pool: new(NodeName(node))},
			Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
				"example.com/rack": {DeviceAttribute: text(rack(node))}}}},
	}
}
