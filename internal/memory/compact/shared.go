package compact

import (
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The bounds of what a Shared remembers: maxStrings strings of at most maxLength bytes each, and maxObjects pods and
// claims of at most maxSize bytes each, as protobuf; at times twice as many. They may be gone from the cluster.
const (
	maxStrings, maxLength = 1 << 14, 128
	maxObjects, maxSize   = 1 << 11, 4 << 10
)

// A Shared makes pods and claims share what they have in common: pods what their controller takes from its template,
// claims what they have from theirs, and both names that many objects have. The zero value is ready for concurrent use.
//
// With 5,000 nodes the webhook keeps 96 MiB of claims and pods instead of 120 (TestHeap in test/scale/measure), a tenth of
// what it keeps, for 4 µs a pod and its claim. Delete it when client-go decodes objects with shared strings.
type Shared struct {
	mutex   sync.Mutex
	strings recent[string, string]
	pods    recent[types.UID, *corev1.Pod]                // by controller
	claims  recent[[2]string, *resourceapi.ResourceClaim] // by namespace and name in the pod
}

// Around returns a transform for informers: what keep leaves of an object shares parts with other objects.
func (s *Shared) Around(keep func(any) (any, error)) func(any) (any, error) {
	return func(object any) (any, error) {
		kept, err := keep(object)
		switch kept := kept.(type) {
		case *corev1.Pod:
			s.Pod(kept)
		case *resourceapi.ResourceClaim:
			s.Claim(kept)
		}
		return kept, err
	}
}

// Pod makes a pod share parts with others. Nothing else may use it during the call, and no part of it may change later.
func (s *Shared) Pod(pod *corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.share(&pod.Namespace, &pod.Spec.NodeName)
	for i := range pod.Status.ResourceClaimStatuses {
		s.share(&pod.Status.ResourceClaimStatuses[i].Name)
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || pod.Size() > maxSize {
		return
	}
	like, known := s.pods.get(controller.UID)
	s.pods.set(controller.UID, pod, maxObjects)
	if !known {
		return
	}
	equal(&pod.Labels, &like.Labels)
	equal(&pod.OwnerReferences, &like.OwnerReferences)
	a, b := &pod.Spec, &like.Spec
	equal(&a.NodeSelector, &b.NodeSelector)
	equal(&a.Affinity, &b.Affinity)
	equal(&a.Tolerations, &b.Tolerations)
	equal(&a.TopologySpreadConstraints, &b.TopologySpreadConstraints)
	equal(&a.ResourceClaims, &b.ResourceClaims)
	equal(&a.SchedulingGroup, &b.SchedulingGroup)
	equal(&a.InitContainers, &b.InitContainers)
	equal(&a.Containers, &b.Containers)
}

// Claim makes a claim share parts with others, as Pod does.
func (s *Shared) Claim(claim *resourceapi.ResourceClaim) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.share(&claim.Namespace)
	s.allocation(claim.Status.Allocation)
	for i := range claim.Status.ReservedFor {
		s.share(&claim.Status.ReservedFor[i].Resource)
	}
	for i := range claim.OwnerReferences {
		owner := &claim.OwnerReferences[i]
		s.share(&owner.APIVersion, &owner.Kind)
		for j := range claim.Status.ReservedFor { // mostly the pod that owns it
			if user := &claim.Status.ReservedFor[j]; user.UID == owner.UID && user.Name == owner.Name {
				user.UID, user.Name = owner.UID, owner.Name
			}
		}
	}
	if claim.Size() > maxSize {
		return
	}
	key := [2]string{claim.Namespace, claim.Annotations[resourceapi.PodResourceClaimAnnotation]}
	like, known := s.claims.get(key)
	s.claims.set(key, claim, maxObjects)
	if !known {
		return
	}
	equal(&claim.Labels, &like.Labels)
	equal(&claim.Annotations, &like.Annotations)
	equal(&claim.Finalizers, &like.Finalizers)
	equal(&claim.Spec.Devices.Requests, &like.Spec.Devices.Requests)
	equal(&claim.Spec.Devices.Constraints, &like.Spec.Devices.Constraints)
	equal(&claim.Spec.Devices.Config, &like.Spec.Devices.Config)
	if a, b := claim.Status.Allocation, like.Status.Allocation; a != nil && b != nil {
		equal(&a.Devices.Config, &b.Devices.Config)
	}
}

func (s *Shared) allocation(a *resourceapi.AllocationResult) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		result := &a.Devices.Results[i]
		s.share(&result.Request, &result.Driver, &result.Pool, &result.Device)
	}
}

// share makes strings refer to equal ones from before.
func (s *Shared) share(all ...*string) {
	for _, text := range all {
		if *text == "" || len(*text) > maxLength {
			continue
		}
		known, is := s.strings.get(*text)
		if !is {
			known = *text
		}
		s.strings.set(known, known, maxStrings)
		*text = known
	}
}

// equal replaces a part with the same part of another object if they are equal.
func equal[T any](part, like *T) {
	if reflect.DeepEqual(*part, *like) {
		*part = *like
	}
}

// recent has the entries that were set last.
type recent[K comparable, V any] struct{ young, old map[K]V }

func (r *recent[K, V]) get(key K) (V, bool) {
	if value, is := r.young[key]; is {
		return value, true
	}
	value, is := r.old[key]
	return value, is
}

// set keeps this entry, at least most before it and at most twice as many.
func (r *recent[K, V]) set(key K, value V, most int) {
	if len(r.young) >= most {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[K]V{}
	}
	r.young[key] = value
}
