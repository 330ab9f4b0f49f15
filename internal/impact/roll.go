package impact

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/roll"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// atATime are the devices that a roll drains at a time at most: those of the nodes with the most pods.
// The guard does not read the labels of nodes, so that a roll of nodes with labels counts as one of all
// nodes of its driver. The controller asks the thresholds again before each node.
func (i *Estimator) atATime(r *v1alpha1.DeviceRoll) (devices []usage.DeviceID, _ error) {
	if i.view == nil {
		return nil, errors.New("ResourceSlices are not watched: enable liveData (--live-data)")
	}
	published := roll.Published(r.Spec.Driver, i.view.Snapshot())
	if only := r.Spec.Nodes; only != nil && only.Names != nil {
		maps.DeleteFunc(published, func(node string, _ []v1alpha1.DeviceName) bool { return !slices.Contains(only.Names, node) })
	}
	pods := map[string]int{}
	for node, names := range published {
		pods[node] = len(i.Index.ImpactOn(ids(names), nil).Pods)
	}
	nodes := slices.SortedFunc(maps.Keys(published), func(a, b string) int {
		return cmp.Or(cmp.Compare(pods[b], pods[a]), strings.Compare(a, b))
	})
	most := int(ptr.Deref(r.Spec.AtATime, 1))
	if r.Spec.PerLabel != "" {
		most = v1alpha1.RollAtATimeMax
	}
	for _, node := range nodes[:min(most, len(nodes))] {
		devices = slices.AppendSeq(devices, ids(published[node]))
	}
	slices.SortFunc(devices, usage.DeviceID.Compare)
	return devices, nil
}

// ids are names as the index has them.
func ids(names []v1alpha1.DeviceName) func(yield func(usage.DeviceID) bool) {
	return func(yield func(usage.DeviceID) bool) {
		for _, name := range names {
			if !yield(usage.DeviceID(name)) {
				return
			}
		}
	}
}
