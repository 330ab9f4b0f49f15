package usage

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/table"
)

// The entries of the tables of an index: there is one of each for each claim and pod, so
// they are small.
type (
	claimEntry struct{ *resourceapi.ResourceClaim }
	podEntry   struct{ *corev1.Pod }
	// holding is a claim, and the place of a device among the results of its allocation.
	holding struct {
		claim  *resourceapi.ResourceClaim
		result int
	}
	// naming is a pod, and the place of a claim among those that it names.
	naming struct {
		pod *corev1.Pod
		at  int
	}
)

// Key implements [table.Entry].
func (e claimEntry) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// Key implements [table.Entry].
func (e podEntry) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// Key implements [table.Entry].
func (h holding) Key() string { return h.claim.Status.Allocation.Devices.Results[h.result].Device }

// Key implements [table.Entry].
func (n naming) Key() types.NamespacedName {
	r, _ := nameAt(n.pod, n.at)
	return r.name
}

// holders yields what holds a device.
func (i *Index) holders(id DeviceID) iter.Seq[holding] {
	if held := i.devices[id.Driver][id.Pool]; held != nil {
		return held.With(id.Device)
	}
	return func(func(holding) bool) {}
}

// devicesOf yields a device of a pool, or all for nil, each once.
func devicesOf(held *table.Table[string, holding], device *string) iter.Seq[string] {
	if device == nil {
		return held.Keys()
	}
	return func(yield func(string) bool) {
		if held.Get(*device) != (holding{}) {
			yield(*device)
		}
	}
}

// allocated yields the devices of a claim by their places. One that serves several
// requests, or is allocated in shares, comes several times.
func allocated(claim *resourceapi.ResourceClaim) iter.Seq2[int, DeviceID] {
	return func(yield func(int, DeviceID) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for at, result := range claim.Status.Allocation.Devices.Results {
			if !yield(at, DeviceID{result.Driver, result.Pool, result.Device}) {
				return
			}
		}
	}
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
