package compact

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podOf is a pod of a Job as a client decodes it.
func podOf(t testing.TB, job, index int) *corev1.Pod {
	t.Helper()
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("job-%d-%d", job, index), Labels: map[string]string{"app": "trainer", "job": fmt.Sprint(job)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprintf("job-%d", job), UID: types.UID(fmt.Sprintf("job-%d", job)), Controller: new(true)}}}}
	made.Spec = corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "trainer"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}}
	made.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new(made.Name + "-gpu")}}
	pod := &corev1.Pod{}
	decode(t, made, pod)
	return pod
}

// claimOf is the claim of a pod as a client decodes it.
func claimOf(t testing.TB, pod *corev1.Pod) *resourceapi.ResourceClaim {
	t.Helper()
	made := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "-gpu", Finalizers: []string{resourceapi.Finalizer},
		Annotations:     map[string]string{resourceapi.PodResourceClaimAnnotation: "gpu"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.Name), Controller: new(true)}}}}
	made.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	made.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: types.UID(pod.Name)}}
	made.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: pod.Name}}}}
	claim := &resourceapi.ResourceClaim{}
	decode(t, made, claim)
	return claim
}

func decode(t testing.TB, from interface{ Marshal() ([]byte, error) }, to interface{ Unmarshal([]byte) error }) {
	t.Helper()
	data, err := from.Marshal()
	if err == nil {
		err = to.Unmarshal(data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// address is where a map, a slice or a string is.
func address(value any) uintptr {
	if text, is := value.(string); is {
		return uintptr(unsafe.Pointer(unsafe.StringData(text)))
	}
	return reflect.ValueOf(value).Pointer()
}

// TestSharedParts: pods of one Job share what is equal, their claims too, and those of another Job do not.
func TestSharedParts(t *testing.T) {
	shared := &Shared{}
	keep := shared.Around(func(object any) (any, error) { return object, nil })
	var pods []*corev1.Pod
	var claims []*resourceapi.ResourceClaim
	for _, name := range [][2]int{{1, 0}, {1, 1}, {2, 0}} {
		pod := podOf(t, name[0], name[1])
		claim := claimOf(t, pod)
		wantPod, wantClaim := pod.DeepCopy(), claim.DeepCopy()
		for _, object := range []any{pod, claim} {
			if kept, err := keep(object); err != nil || kept != object {
				t.Fatal(kept, err)
			}
		}
		if !reflect.DeepEqual(pod, wantPod) || !reflect.DeepEqual(claim, wantClaim) {
			t.Errorf("they changed to %v and %v, want %v and %v", pod, claim, wantPod, wantClaim)
		}
		pods, claims = append(pods, pod), append(claims, claim)
	}
	for what, of := range map[string]func(at int) any{
		"labels":          func(at int) any { return pods[at].Labels },
		"owners":          func(at int) any { return pods[at].OwnerReferences },
		"containers":      func(at int) any { return pods[at].Spec.Containers },
		"claims of a pod": func(at int) any { return pods[at].Spec.ResourceClaims },
	} {
		if address(of(0)) != address(of(1)) {
			t.Errorf("%s of pods of one Job are not shared", what)
		}
		if address(of(0)) == address(of(2)) {
			t.Errorf("%s of pods of two Jobs are shared", what)
		}
	}
	for what, of := range map[string]func(at int) any{
		"namespaces":  func(at int) any { return pods[at].Namespace },
		"nodes":       func(at int) any { return pods[at].Spec.NodeName },
		"annotations": func(at int) any { return claims[at].Annotations },
		"requests":    func(at int) any { return claims[at].Spec.Devices.Requests },
		"pools":       func(at int) any { return claims[at].Status.Allocation.Devices.Results[0].Pool },
	} {
		if address(of(0)) != address(of(1)) || address(of(0)) != address(of(2)) {
			t.Errorf("%s are not shared", what)
		}
	}
	if claim := claims[0]; address(claim.OwnerReferences[0].Name) != address(claim.Status.ReservedFor[0].Name) {
		t.Error("a claim has the name of its pod twice")
	}
}

// TestSharedUnlike: whatever parts pods and claims have or lack, they say the same afterwards.
func TestSharedUnlike(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	shared := &Shared{}
	for range 2000 {
		pod := podOf(t, 1, random.IntN(3))
		claim := claimOf(t, pod)
		for _, change := range []func(){
			func() { pod.Labels = nil }, func() { pod.Labels = map[string]string{"app": "trainer", "index": "1"} }, func() { pod.OwnerReferences = nil }, func() { pod.Spec.ResourceClaims = nil },
			func() { pod.Spec.Tolerations = []corev1.Toleration{} }, func() { pod.Spec.Containers[0].Name = "other" }, func() { pod.Spec.Affinity = &corev1.Affinity{} },
			func() { claim.Annotations = nil }, func() { claim.Annotations = map[string]string{} }, func() { claim.Status.Allocation = nil }, func() { claim.Status.ReservedFor = nil },
			func() { claim.Spec.Devices.Requests[0].Name = "other" }, func() { claim.Finalizers = nil }, func() { claim.OwnerReferences[0].UID = "other" },
		} {
			if random.IntN(4) == 0 {
				change()
			}
		}
		wantPod, wantClaim := pod.DeepCopy(), claim.DeepCopy()
		shared.Pod(pod)
		shared.Claim(claim)
		if !reflect.DeepEqual(pod, wantPod) || !reflect.DeepEqual(claim, wantClaim) {
			t.Fatalf("they changed to %v and %v, want %v and %v", pod, claim, wantPod, wantClaim)
		}
	}
}

// TestSharedBounds: what tenants make up is not remembered without end, and nothing large is.
func TestSharedBounds(t *testing.T) {
	shared := &Shared{}
	for i := range 5 * maxStrings / 2 {
		pod := podOf(t, i, 0)
		pod.Namespace, pod.Spec.NodeName = fmt.Sprint("namespace-", i), fmt.Sprint("node-", i)
		shared.Pod(pod)
		claim := claimOf(t, pod)
		claim.Namespace = pod.Namespace
		shared.Claim(claim)
	}
	if n := len(shared.strings.young) + len(shared.strings.old); n > 2*maxStrings {
		t.Errorf("%d strings are remembered, want at most %d", n, 2*maxStrings)
	}
	if n := max(len(shared.pods.young)+len(shared.pods.old), len(shared.claims.young)+len(shared.claims.old)); n > 2*maxObjects {
		t.Errorf("%d objects are remembered, want at most %d", n, 2*maxObjects)
	}
	large := podOf(t, -1, 0)
	large.Labels["large"] = strings.Repeat("x", maxSize)
	large.Spec.NodeName = strings.Repeat("y", maxLength+1)
	shared.Pod(large)
	if _, is := shared.pods.get("job--1"); is {
		t.Error("a large pod is remembered")
	}
	if _, is := shared.strings.get(large.Spec.NodeName); is {
		t.Error("a long string is remembered")
	}
}

// BenchmarkShared decodes a pod and its claim, without and with what they share.
func BenchmarkShared(b *testing.B) {
	var pods [9][]byte
	var claims [9][]byte
	for i := range pods {
		pod := podOf(b, 1, i)
		pods[i], _ = pod.Marshal()
		claims[i], _ = claimOf(b, pod).Marshal()
	}
	for _, share := range []bool{false, true} {
		b.Run(fmt.Sprintf("share=%t", share), func(b *testing.B) {
			shared := &Shared{}
			for at := 0; b.Loop(); at = (at + 1) % len(pods) {
				pod, claim := &corev1.Pod{}, &resourceapi.ResourceClaim{}
				if pod.Unmarshal(pods[at]) != nil || claim.Unmarshal(claims[at]) != nil {
					b.Fatal("not decoded")
				}
				if share {
					shared.Pod(pod)
					shared.Claim(claim)
				}
			}
		})
	}
}
