package drain

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// maxOwners is how many owners are remembered; the schema has the number, too. Pods of the
// owners beyond count as having no evicted pod.
const maxOwners = 512

// evictedByOwner returns how many pods of each owner were evicted.
func (d *Decision) evictedByOwner() map[types.UID]int {
	evicted := map[types.UID]int{}
	for _, owner := range d.Status.EvictedByOwner {
		evicted[owner.UID] = int(owner.Count)
	}
	return evicted
}

// countOwner counts an eviction for the owner of a pod.
func (d *Decision) countOwner(pod *candidate) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	i := slices.IndexFunc(d.Status.EvictedByOwner, func(t v1alpha1.OwnerEvictions) bool { return t.UID == owner.UID })
	switch {
	case i >= 0:
		d.Status.EvictedByOwner[i].Count++
	case len(d.Status.EvictedByOwner) < maxOwners:
		d.Status.EvictedByOwner = append(d.Status.EvictedByOwner, v1alpha1.OwnerEvictions{UID: owner.UID, Count: 1})
	}
}

// dropOwners forgets owners that have no pods left.
func (d *Decision) dropOwners(pods []*candidate) {
	owners := map[types.UID]bool{}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			owners[owner.UID] = true
		}
	}
	d.Status.EvictedByOwner = slices.DeleteFunc(d.Status.EvictedByOwner, func(t v1alpha1.OwnerEvictions) bool { return !owners[t.UID] })
}
