package evictor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// The indexes of the informers: claims by the devices that they are allocated, pods by
// the claims that they name.
const (
	byDevice = "evictor.device"
	byClaim  = "evictor.claim"
)

// index finds who holds a device, in the stores of the informers: what is decided is
// always decided about the newest objects, whatever events have been merged.
type index struct {
	claims, pods cache.Indexer
	settings     Settings
}

func newIndex(claims, pods cache.SharedIndexInformer, settings Settings) (index, error) {
	err := claims.AddIndexers(cache.Indexers{byDevice: func(object any) ([]string, error) {
		claim, ok := object.(*resourceapi.ResourceClaim)
		if !ok {
			return nil, fmt.Errorf("unexpected %T among the claims", object)
		}
		return devicesOf(claim), nil
	}})
	if err != nil {
		return index{}, fmt.Errorf("evictor: index of claims: %w", err)
	}
	err = pods.AddIndexers(cache.Indexers{byClaim: func(object any) ([]string, error) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected %T among the pods", object)
		}
		return claimsOf(pod), nil
	}})
	if err != nil {
		return index{}, fmt.Errorf("evictor: index of pods: %w", err)
	}
	return index{claims: claims.GetIndexer(), pods: pods.GetIndexer(), settings: settings}, nil
}

// devicesOf are the devices of an allocated claim, as keys.
func devicesOf(claim *resourceapi.ResourceClaim) (keys []string) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		keys = append(keys, DeviceID{r.Driver, r.Pool, r.Device}.String())
	}
	return keys
}

// claimsOf are the claims that a pod names, whether they are for it or not.
func claimsOf(pod *corev1.Pod) (keys []string) {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys = append(keys, pod.Namespace+"/"+*name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		keys = append(keys, pod.Namespace+"/"+extended.ResourceClaimName)
	}
	return keys
}

// Claim implements [Claims].
func (x index) Claim(namespace, name string) *resourceapi.ResourceClaim {
	object, exists, err := x.claims.GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	claim, _ := object.(*resourceapi.ResourceClaim)
	return claim
}

func (x index) pod(name types.NamespacedName) *corev1.Pod {
	object, exists, err := x.pods.GetByKey(name.String())
	if err != nil || !exists {
		return nil
	}
	pod, _ := object.(*corev1.Pod)
	return pod
}

// claimsWith are the claims that hold a device.
func (x index) claimsWith(device string) (all []*resourceapi.ResourceClaim) {
	objects, err := x.claims.ByIndex(byDevice, device)
	if err != nil { // there is that index
		return nil
	}
	for _, object := range objects {
		if claim, ok := object.(*resourceapi.ResourceClaim); ok {
			all = append(all, claim)
		}
	}
	return all
}

// podsWith are the pods that name a claim.
func (x index) podsWith(claim string) (all []*corev1.Pod) {
	objects, err := x.pods.ByIndex(byClaim, claim)
	if err != nil { // there is that index
		return nil
	}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			all = append(all, pod)
		}
	}
	return all
}

// allocated are the keys of the devices that are allocated and selected by a rule.
func (x index) allocated(rule *resourceapi.DeviceTaintRule) (keys []string) {
	if s := rule.Spec.DeviceSelector; s == nil {
		return nil
	} else if s.Driver != nil && s.Pool != nil && s.Device != nil {
		return []string{DeviceID{*s.Driver, *s.Pool, *s.Device}.String()}
	}
	for _, key := range x.claims.ListIndexFuncValues(byDevice) {
		if id, ok := parseDevice(key); ok && selects(rule, id) {
			keys = append(keys, key)
		}
	}
	return keys
}
