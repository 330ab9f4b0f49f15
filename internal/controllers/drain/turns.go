package drain

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// maxTurns is how many owners are remembered; the schema has the number, too. Pods of the
// owners beyond have the first turn.
const maxTurns = 512

// turns are how many pods of an owner had their turn.
func (d *Decision) turns() map[types.UID]int {
	turns := map[types.UID]int{}
	for _, turn := range d.Status.Turns {
		turns[turn.UID] = int(turn.Count)
	}
	return turns
}

// takeTurn notes the turn of a pod's owner.
func (d *Decision) takeTurn(pod *candidate) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	i := slices.IndexFunc(d.Status.Turns, func(t v1alpha1.DrainTurn) bool { return t.UID == owner.UID })
	switch {
	case i >= 0:
		d.Status.Turns[i].Count++
	case len(d.Status.Turns) < maxTurns:
		d.Status.Turns = append(d.Status.Turns, v1alpha1.DrainTurn{UID: owner.UID, Count: 1})
	}
}

// dropTurns forgets owners that have no pods left.
func (d *Decision) dropTurns(pods []*candidate) {
	owners := map[types.UID]bool{}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			owners[owner.UID] = true
		}
	}
	d.Status.Turns = slices.DeleteFunc(d.Status.Turns, func(t v1alpha1.DrainTurn) bool { return !owners[t.UID] })
}
