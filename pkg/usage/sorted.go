package usage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// sorted are names of claims or pods, in their order, each once. Nearly all have one
// member, for which a map would take ten times the memory.
type sorted []types.NamespacedName

func (n sorted) with(name types.NamespacedName) sorted {
	at, found := slices.BinarySearchFunc(n, name, compareNames)
	if found {
		return n
	}
	return slices.Insert(n, at, name)
}

func (n sorted) without(name types.NamespacedName) sorted {
	at, found := slices.BinarySearchFunc(n, name, compareNames)
	if !found {
		return n
	}
	return slices.Delete(n, at, at+1)
}

// sameDevices tells whether two claims hold the same devices, or none.
func sameDevices(a, b *resourceapi.ResourceClaim) bool {
	if (a == nil) != (b.Status.Allocation == nil) {
		return false
	}
	return slices.Equal(slices.Collect(allocated(a)), slices.Collect(allocated(b)))
}

// sameUse tells whether two claims say the same of who uses what: the heartbeats that
// drivers write into status.devices do not matter. a is nil for one not allocated.
func sameUse(a, b *resourceapi.ResourceClaim) bool {
	if a == nil || b.Status.Allocation == nil {
		return a == nil && b.Status.Allocation == nil
	}
	return a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.Status.Allocation, b.Status.Allocation) &&
		equality.Semantic.DeepEqual(a.Status.ReservedFor, b.Status.ReservedFor) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// sameNames tells whether two pods name the same claims.
func sameNames(a, b *corev1.Pod) bool {
	return slices.Equal(slices.Collect(named(a)), slices.Collect(named(b)))
}
