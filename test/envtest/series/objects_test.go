package series_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	convertv1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	convertv1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"
)

const driver = "gpu.example.com"

// A kind is one of resource.k8s.io, with its versions that the API server serves.
type kind struct {
	name, resource string
	namespaced     bool
	make           func(*rand.Rand, metav1.ObjectMeta) any
	convert        map[string]func(any) (any, error)
}

func kinds() []kind {
	return []kind{
		{"ResourceClaim", "resourceclaims", true, claim, map[string]func(any) (any, error){
			"v1beta1": converted(convertv1beta1.Convert_v1_ResourceClaim_To_v1beta1_ResourceClaim),
			"v1beta2": converted(convertv1beta2.Convert_v1_ResourceClaim_To_v1beta2_ResourceClaim)}},
		{"ResourceClaimTemplate", "resourceclaimtemplates", true, template, map[string]func(any) (any, error){
			"v1beta1": converted(convertv1beta1.Convert_v1_ResourceClaimTemplate_To_v1beta1_ResourceClaimTemplate),
			"v1beta2": converted(convertv1beta2.Convert_v1_ResourceClaimTemplate_To_v1beta2_ResourceClaimTemplate)}},
		{"DeviceClass", "deviceclasses", false, class, map[string]func(any) (any, error){
			"v1beta1": converted(convertv1beta1.Convert_v1_DeviceClass_To_v1beta1_DeviceClass),
			"v1beta2": converted(convertv1beta2.Convert_v1_DeviceClass_To_v1beta2_DeviceClass)}},
		{"ResourceSlice", "resourceslices", false, slice, map[string]func(any) (any, error){
			"v1beta1": converted(convertv1beta1.Convert_v1_ResourceSlice_To_v1beta1_ResourceSlice),
			"v1beta2": converted(convertv1beta2.Convert_v1_ResourceSlice_To_v1beta2_ResourceSlice)}},
		{"DeviceTaintRule", "devicetaintrules", false, taintRule, map[string]func(any) (any, error){
			"v1beta2": converted(convertv1beta2.Convert_v1_DeviceTaintRule_To_v1beta2_DeviceTaintRule)}},
	}
}

func converted[In, Out any](convert func(*In, *Out, conversion.Scope) error) func(any) (any, error) {
	return func(object any) (any, error) {
		var out Out
		err := convert(object.(*In), &out, nil)
		return &out, err
	}
}

// object makes the i-th object in one of the versions that are served.
func object(t *testing.T, r *rand.Rand, served map[string][]string, name string, only ...string) (schema.GroupVersionResource, *unstructured.Unstructured) {
	t.Helper()
	var possible []kind
	for _, k := range kinds() {
		if len(served[k.resource]) > 0 && (len(only) == 0 || k.name == only[0]) {
			possible = append(possible, k)
		}
	}
	k := one(r, possible...)
	version := one(r, served[k.resource]...)
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.com/team": one(r, "a", "b")}}
	if k.namespaced {
		meta.Namespace = metav1.NamespaceDefault
	}
	typed := k.make(r, meta)
	if version != "v1" {
		var err error
		if typed, err = k.convert[version](typed); err != nil {
			t.Fatal(err)
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetCreationTimestamp(metav1.Time{})
	gvr := schema.GroupVersionResource{Group: resourcev1.GroupName, Version: version, Resource: k.resource}
	u.SetGroupVersionKind(gvr.GroupVersion().WithKind(k.name))
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "metadata", "creationTimestamp")
	return gvr, u
}

func one[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func claim(r *rand.Rand, meta metav1.ObjectMeta) any {
	return &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: claimSpec(r)}
}

func template(r *rand.Rand, meta metav1.ObjectMeta) any {
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claimSpec(r)}}
}

func class(r *rand.Rand, meta metav1.ObjectMeta) any {
	return &resourcev1.DeviceClass{ObjectMeta: meta, Spec: resourcev1.DeviceClassSpec{Selectors: append(selectors(r), selectors(r)...)}}
}

func taintRule(r *rand.Rand, meta metav1.ObjectMeta) any {
	name := func(name string) *string { return one(r, nil, &name, &name) }
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: meta, Spec: resourcev1.DeviceTaintRuleSpec{Taint: resourcev1.DeviceTaint{
		Key: one(r, "example.com/a", "gpu.example.com/xid"), Value: one(r, "", "x"),
		Effect: one(r, resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)}}}
	if r.IntN(5) > 0 {
		rule.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: name(driver), Pool: name("node-1"), Device: name("gpu-0")}
	}
	return rule
}

func slice(r *rand.Rand, meta metav1.ObjectMeta) any {
	s := &resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, Pool: resourcev1.ResourcePool{Name: meta.Name, Generation: 1, ResourceSliceCount: 1}, NodeName: new("node-1")}}
	for i := range 1 + r.IntN(3) {
		device := resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: new(one(r, "a100", "h100"))}, "memory": {IntValue: new(r.Int64N(100))}}}
		if r.IntN(3) == 0 {
			device.Taints = []resourcev1.DeviceTaint{{Key: "gpu.example.com/xid", Effect: one(r, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)}}
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return s
}

func claimSpec(r *rand.Rand) (spec resourcev1.ResourceClaimSpec) {
	for i := range 1 + r.IntN(2) {
		request := resourcev1.DeviceRequest{Name: fmt.Sprintf("request-%d", i)}
		count := int64(1 + r.IntN(one(r, 4, 4, 4, 40)))
		if r.IntN(3) > 0 {
			request.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount,
				Count: count, Selectors: selectors(r), Tolerations: tolerations(r)}
		} else {
			request.FirstAvailable = []resourcev1.DeviceSubRequest{{Name: "large", DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount,
				Count: count, Selectors: selectors(r), Tolerations: tolerations(r)}}
		}
		spec.Devices.Requests = append(spec.Devices.Requests, request)
	}
	return spec
}

func selectors(r *rand.Rand) []resourcev1.DeviceSelector {
	expression := one(r, "", "true", "device.driver == 'gpu.example.com'")
	if expression == "" {
		return nil
	}
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func tolerations(r *rand.Rand) (list []resourcev1.DeviceToleration) {
	for range one(r, 0, 0, 1, 2, 17) {
		toleration := resourcev1.DeviceToleration{Key: one(r, "example.com/a", "gpu.example.com/xid"),
			Operator: one(r, resourcev1.DeviceTolerationOperator(""), resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists),
			Effect:   one(r, resourcev1.DeviceTaintEffect(""), resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)}
		if toleration.Effect == resourcev1.DeviceTaintEffectNoExecute {
			toleration.TolerationSeconds = one(r, nil, new(int64(60)), new(int64(7000)))
		}
		list = append(list, toleration)
	}
	return list
}
