package impact

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/reaction"
	"github.com/dra-steward/dra-steward/internal/placement"
	"github.com/dra-steward/dra-steward/internal/siblings"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// sick are the devices that have the cause of a reaction now, with the partitions that it drains.
// The controller asks the thresholds again before each of its drains.
func (i *Estimator) sick(r *v1alpha1.DeviceReaction) ([]usage.DeviceID, error) {
	if i.view == nil {
		return nil, errors.New("ResourceSlices are not watched: enable liveData (--live-data)")
	}
	if r.Spec.When.NodeCondition != nil && i.conditions == nil {
		return nil, errors.New("nodes are not watched: enable controller.reactions (--guard-reactions)")
	}
	view := i.view.Snapshot()
	causes, unknown := reaction.Causes(r, view, i.nodes(), &patch.Compiler{})
	if unknown != "" {
		return nil, fmt.Errorf("which devices are sick is unknown: %s", unknown)
	}
	var devices []usage.DeviceID
	for name := range causes {
		devices = append(devices, usage.DeviceID(name))
	}
	if r.Spec.Then.WithPartitions {
		devices = append(devices, siblings.Of(view.PublishedSlices(), slices.Values(devices))...)
	}
	slices.SortFunc(devices, usage.DeviceID.Compare)
	return devices, nil
}

// nodes lists the nodes; nil while they are not read.
func (i *Estimator) nodes() func() []*corev1.Node {
	if i.conditions == nil || !i.conditions.HasSynced() {
		return nil
	}
	return func() []*corev1.Node { return placement.Stored[*corev1.Node](i.conditions.GetStore()) }
}
