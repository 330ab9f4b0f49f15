package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	extendedResource = "example.com/gpu"
	adminNamespace   = "admin"
)

func exactly(name string, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: driverName, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}
}

// alternatives can only be served by its second alternative.
func alternatives(name string) resourceapi.DeviceRequest {
	never := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}}}
	return resourceapi.DeviceRequest{Name: name, FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "large", DeviceClassName: driverName, Selectors: never},
		{Name: "small", DeviceClassName: driverName},
	}}
}

func claimSpec(requests ...resourceapi.DeviceRequest) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}
}

// container uses claims of its pod, each as claim or claim/request.
func container(name string, claims ...corev1.ResourceClaim) corev1.Container {
	return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{Claims: claims}}
}

func pod(namespace, name string, claims []corev1.PodResourceClaim, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			ResourceClaims: claims, Containers: containers, AutomountServiceAccountToken: ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](1),
		},
	}
}

func named(claim string) []corev1.PodResourceClaim {
	return []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
}

func fromTemplate(template string) []corev1.PodResourceClaim {
	return []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}}
}

// createBase creates class, claims and template.
func (w *world) createBase() {
	ctx := w.Context()
	must := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: adminNamespace, Labels: map[string]string{resourceapi.DRAAdminNamespaceLabelKey: "true"}}}
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		must(err)
	}
	w.createClass()
	admin := exactly("watch", 1)
	admin.Exactly.AdminAccess = ptr.To(true)
	for _, claim := range []*resourceapi.ResourceClaim{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two-requests"}, Spec: claimSpec(exactly("a", 2), exactly("b", 1))},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-level"}, Spec: claimSpec(exactly("net", 1))},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: claimSpec(exactly("s", 1))},
		{ObjectMeta: metav1.ObjectMeta{Namespace: adminNamespace, Name: "monitor"}, Spec: claimSpec(admin)},
	} {
		w.createClaim(claim)
	}
	template := &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alternatives"},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: claimSpec(alternatives("either"), exactly("more", 1))},
	}
	_, err := w.client.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{})
	must(err)
}

func (w *world) createClaim(claim *resourceapi.ResourceClaim) {
	w.Helper()
	if _, err := w.client.ResourceV1().ResourceClaims(claim.Namespace).Create(w.Context(), claim, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// createClass creates the class of the driver.
func (w *world) createClass() {
	w.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: resourceapi.DeviceClassSpec{
		ExtendedResourceName: ptr.To(extendedResource),
		Selectors:            []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driverName)}}},
	}}
	if _, err := w.client.ResourceV1().DeviceClasses().Create(w.Context(), class, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// pods are one of each way to hold devices.
func pods() []*corev1.Pod {
	extended := func(name string) corev1.Container {
		one := corev1.ResourceList{extendedResource: resource.MustParse("1")}
		return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}
	}
	ref := func(request string) corev1.ResourceClaim { return corev1.ResourceClaim{Name: "c", Request: request} }
	return []*corev1.Pod{
		pod("default", "requests", named("two-requests"), container("only-a", ref("a")), container("only-b", ref("b")), container("all", ref("")), container("none")),
		pod("default", "alternatives", fromTemplate("alternatives"), container("either", ref("either")), container("more", ref("more"))),
		pod("default", "pod-level", named("pod-level"), container("main")),
		pod("default", "extended", nil, extended("first"), extended("second")),
		pod("default", "shared-1", named("shared"), container("main", ref(""))),
		pod("default", "shared-2", named("shared"), container("main", ref("s"))),
		pod(adminNamespace, "monitor", named("monitor"), container("main", ref(""))),
	}
}

// run creates pods and waits until all of them run.
func (w *world) run(all ...*corev1.Pod) {
	w.Helper()
	for _, p := range all {
		if _, err := w.client.CoreV1().Pods(p.Namespace).Create(w.Context(), p, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
	w.eventually("all pods run", func(ctx context.Context) (bool, string) {
		for _, p := range all {
			now, err := w.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil || now.Status.Phase != corev1.PodRunning {
				return false, fmt.Sprint(p.Name, ": ", err, now.Status)
			}
		}
		return true, ""
	})
}
