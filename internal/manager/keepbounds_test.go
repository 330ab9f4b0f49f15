package manager

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestKeptIsBounded: whatever part of an object a tenant fills, as far as the API server stores it, little is kept.
func TestKeptIsBounded(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects map[string]sized
		keeps   map[string]func(any) (any, error)
	}{
		{"claim", largeClaims(), map[string]func(any) (any, error){
			"controller": Options{}.keepClaims(), "with foresight": Options{drainForesight: true}.keepClaims(), "with reactions": Options{reactions: true}.keepClaims(),
			"webhook": usage.Trim, "webhook with foresight": placement.Keep}},
		{"template", largeTemplates(), map[string]func(any) (any, error){"foresight": placement.Keep}},
		{"pod", largePods(), map[string]func(any) (any, error){
			"controller": Options{}.keepPods(), "with foresight": Options{drainForesight: true}.keepPods(), "with reactions": Options{reactions: true}.keepPods(),
			"evictor": stripPod, "webhook": usage.Trim, "webhook with foresight": placement.Keep}},
		{"budget", largeBudgets(), map[string]func(any) (any, error){"webhook": usage.Trim, "webhook with foresight": placement.Keep}},
	} {
		for part, object := range test.objects {
			for reader, keep := range test.keeps {
				t.Run(test.name+"/"+part+"/"+reader, func(t *testing.T) {
					if size := object.Size(); size < 250<<10 {
						t.Fatalf("it has only %d bytes", size)
					}
					kept, err := keep(object)
					if err != nil {
						t.Fatal(err)
					}
					if size := kept.(sized).Size(); size > 128<<10 {
						t.Errorf("of %d bytes, %d are kept", object.Size(), size)
					}
				})
			}
		}
	}
}

// sized is an object that has a size as protobuf.
type sized interface{ Size() int }

const many = 10_000

// metas are objects with one part of the metadata filled.
func metas() map[string]metav1.ObjectMeta {
	all := map[string]metav1.ObjectMeta{}
	add := func(part string, fill func(m *metav1.ObjectMeta)) {
		m := metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{}}
		fill(&m)
		all[part] = m
	}
	add("annotations", func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10)} })
	add("its annotation", func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: strings.Repeat("x", 256<<10)}
	})
	add("labels", func(m *metav1.ObjectMeta) {
		for i := range many {
			m.Labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 60)
		}
	})
	add("owners", func(m *metav1.ObjectMeta) {
		for i := range many {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprintf("%036d", i))})
		}
	})
	add("controller", func(m *metav1.ObjectMeta) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: strings.Repeat("x", 1<<20), UID: "a", Controller: new(true)}}
	})
	add("finalizers", func(m *metav1.ObjectMeta) {
		for i := range many {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/finalizer-%020d", i))
		}
	})
	return all
}

// specs are those of claims with one part filled.
func specs() map[string]resourceapi.ResourceClaimSpec {
	opaque, selectors := resourceapi.ResourceClaimSpec{}, resourceapi.ResourceClaimSpec{}
	for i := range 32 {
		opaque.Devices.Config = append(opaque.Devices.Config, resourceapi.DeviceClaimConfiguration{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "d", Parameters: runtime.RawExtension{Raw: []byte(strings.Repeat("x", 10<<10))}}}})
		r := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		for j := range 8 {
			r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{Name: fmt.Sprint("s", j), DeviceClassName: strings.Repeat("c", 253),
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: strings.Repeat("x", 5<<10)}}}})
		}
		selectors.Devices.Requests = append(selectors.Devices.Requests, r)
	}
	return map[string]resourceapi.ResourceClaimSpec{"parameters": opaque, "selectors": selectors}
}

func largeClaims() map[string]sized {
	all := map[string]sized{}
	for part, meta := range metas() {
		all[part] = &resourceapi.ResourceClaim{ObjectMeta: meta}
	}
	for part, spec := range specs() {
		all[part] = &resourceapi.ResourceClaim{Spec: spec}
		allocated := &resourceapi.ResourceClaim{Spec: spec, Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
		for _, c := range spec.Devices.Config {
			allocated.Status.Allocation.Devices.Config = append(allocated.Status.Allocation.Devices.Config, resourceapi.DeviceAllocationConfiguration{DeviceConfiguration: c.DeviceConfiguration})
		}
		all[part+", allocated"] = allocated
	}
	return all
}

func largeTemplates() map[string]sized {
	all := map[string]sized{}
	for part, meta := range metas() {
		all[part] = &resourceapi.ResourceClaimTemplate{ObjectMeta: meta}
		all[part+" of the claim"] = &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{ObjectMeta: meta}}
	}
	for part, spec := range specs() {
		all[part] = &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}
	}
	return all
}

func largePods() map[string]sized {
	all := map[string]sized{}
	claims := func() []corev1.PodResourceClaim {
		return []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
	}
	for part, meta := range metas() {
		all[part] = &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{ResourceClaims: claims()}}
	}
	add := func(part string, fill func(s *corev1.PodSpec, i int)) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: claims(), NodeSelector: map[string]string{}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}}
		for i := range many {
			fill(&pod.Spec, i)
		}
		all[part] = pod
	}
	add("node selector", func(s *corev1.PodSpec, i int) { s.NodeSelector[fmt.Sprintf("%040d", i)] = "x" })
	add("affinity", func(s *corev1.PodSpec, i int) {
		s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fmt.Sprintf("%020d", i), Operator: corev1.NodeSelectorOpExists}}}})
	})
	add("tolerations", func(s *corev1.PodSpec, i int) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: fmt.Sprintf("%020d", i), Operator: corev1.TolerationOpExists})
	})
	add("containers", func(s *corev1.PodSpec, i int) {
		s.Containers = append(s.Containers, corev1.Container{Name: fmt.Sprintf("%020d", i), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}}})
	})
	add("resources", func(s *corev1.PodSpec, i int) {
		if i == 0 {
			s.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}}
		}
		s.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("example.com/%020d", i))] = resource.MustParse("1")
	})
	add("claims", func(s *corev1.PodSpec, i int) {
		s.ResourceClaims = append(s.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimName: new("a-claim-that-does-not-exist")})
	})
	return all
}

func largeBudgets() map[string]sized {
	all := map[string]sized{}
	for part, meta := range metas() {
		all[part] = &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	}
	percent := intstr.FromString(strings.Repeat("0", 1<<20) + "1%")
	all["percent"] = &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &percent}}
	return all
}
