package evictor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/evictor"
)

// A world is what one decision is about: a driver, a namespace, and what is in them.
// Worlds do not touch each other, so that one controller can decide about many.
type world struct {
	name   string
	start  time.Time
	random *rand.Rand
	slices []*resourceapi.ResourceSlice
	rules  []*resourceapi.DeviceTaintRule
	claims []*resourceapi.ResourceClaim
	pods   []*corev1.Pod
}

const pool = "pool"

func newWorld(i int, seed uint64, start time.Time) *world {
	w := &world{name: fmt.Sprintf("w%d", i), start: start, random: rand.New(rand.NewPCG(seed, uint64(i)))}
	w.addSlices()
	for n := range w.random.IntN(3) {
		w.addRule(n)
	}
	for n := range 1 + w.random.IntN(3) {
		w.addPod(n)
	}
	return w
}

func (w *world) driver() string { return w.name + ".example.com" }

func (w *world) objects() (all []runtime.Object) {
	for _, o := range w.slices {
		all = append(all, o)
	}
	for _, o := range w.rules {
		all = append(all, o)
	}
	for _, o := range w.claims {
		all = append(all, o)
	}
	for _, o := range w.pods {
		all = append(all, o)
	}
	return all
}

func pick[T any](w *world, from ...T) T { return from[w.random.IntN(len(from))] }

// past is a time up to ten seconds before the start. Taints lie in the past, so that
// what is not tolerated is evicted at once.
func (w *world) past() *metav1.Time {
	return ptr.To(metav1.NewTime(w.start.Add(-time.Duration(w.random.IntN(10)) * time.Second)))
}

func (w *world) effect() resourceapi.DeviceTaintEffect {
	return pick(w, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoExecute,
		resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone)
}

// addSlices publishes three devices, sometimes in an old generation as well.
func (w *world) addSlices() {
	for generation := range int64(1 + w.random.IntN(2)) {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(w.name, "-", generation)}}
		slice.Spec.Driver = w.driver()
		slice.Spec.Pool = resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: 1}
		slice.Spec.NodeName = ptr.To("node")
		for d := range 3 {
			device := resourceapi.Device{Name: fmt.Sprint("gpu-", d)}
			for range w.random.IntN(3) {
				device.Taints = append(device.Taints, resourceapi.DeviceTaint{
					Key: pick(w, "example.com/a", "example.com/b"), Value: pick(w, "", "x"), Effect: w.effect(), TimeAdded: w.past(),
				})
			}
			slice.Spec.Devices = append(slice.Spec.Devices, device)
		}
		w.slices = append(w.slices, slice)
	}
}

func (w *world) addRule(n int) {
	name := fmt.Sprint(w.name, "-", n)
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: pick(w, "example.com/a", "example.com/b"), Effect: w.effect(), TimeAdded: w.past()}
	if w.random.IntN(8) > 0 {
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To(w.driver())}
		if w.random.IntN(3) > 0 {
			// gpu-3 is not published; a rule finds it by its name all the same.
			rule.Spec.DeviceSelector.Device = ptr.To(fmt.Sprint("gpu-", w.random.IntN(4)))
		}
	}
	w.rules = append(w.rules, rule)
}

func (w *world) toleration() resourceapi.DeviceToleration {
	t := resourceapi.DeviceToleration{
		Key:      pick(w, "example.com/a", "example.com/b", ""),
		Operator: resourceapi.DeviceTolerationOpExists,
		Effect:   pick(w, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, ""),
	}
	if t.Key != "" && w.random.IntN(3) == 0 {
		t.Operator, t.Value = resourceapi.DeviceTolerationOpEqual, pick(w, "", "x")
	}
	if w.random.IntN(5) > 0 {
		t.TolerationSeconds = ptr.To(pick[int64](w, -1, 0, 2, 5, 11, 13, 17, math.MaxInt64, 9_223_372_037))
	}
	return t
}

func (w *world) addPod(n int) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: fmt.Sprint("pod-", n), UID: types.UID(fmt.Sprint(w.name, "-", n))}}
	pod.Spec.NodeName = pick(w, "node", "node", "node", "node", "")
	pod.Status.Phase = pick(w, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded)
	w.pods = append(w.pods, pod)
	for c := range w.random.IntN(3) {
		w.addClaim(pod, fmt.Sprintf("claim-%d-%d", n, c))
	}
}

func (w *world) addClaim(pod *corev1.Pod, name string) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, UID: types.UID(w.name + name)}}
	w.claims = append(w.claims, claim)
	if w.random.IntN(10) > 0 {
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		for _, device := range w.random.Perm(4)[:1+w.random.IntN(2)] {
			result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: w.driver(), Pool: pool, Device: fmt.Sprint("gpu-", device)}
			for range w.random.IntN(4) {
				result.Tolerations = append(result.Tolerations, w.toleration())
			}
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
		}
	}
	uid := pod.UID
	if w.random.IntN(10) == 0 {
		uid = "another pod of this name"
	}
	if w.random.IntN(10) > 0 {
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: uid}}
	}
	owned := func() {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pick(w, pod.UID, pod.UID, uid), Controller: ptr.To(true)}}
	}
	switch w.random.IntN(4) {
	case 0, 1:
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)})
	case 2:
		owned()
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To("template")})
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: ptr.To(name)})
	case 3:
		owned()
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
	}
}

// Claim and Taints are the views that our decision needs.
func (w *world) Claim(namespace, name string) *resourceapi.ResourceClaim {
	for _, claim := range w.claims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim
		}
	}
	return nil
}

func (w *world) Taints(id evictor.DeviceID) (taints []evictor.Taint) {
	newest := w.slices[len(w.slices)-1]
	for _, device := range newest.Spec.Devices {
		if device.Name == id.Device {
			for i, taint := range device.Taints {
				taints = append(taints, evictor.Taint{DeviceTaint: taint, Index: i})
			}
		}
	}
	for _, rule := range w.rules {
		if s := rule.Spec.DeviceSelector; s != nil && (s.Device == nil || *s.Device == id.Device) {
			taints = append(taints, evictor.Taint{DeviceTaint: rule.Spec.Taint, Rule: evictor.Rule{Name: rule.Name, UID: rule.UID}})
		}
	}
	return taints
}
