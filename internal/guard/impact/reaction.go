package impact

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// sick are the devices that have the cause of a reaction now, with the partitions that it drains.
// The controller asks the thresholds again before each of its drains.
func (i *Estimator) sick(r *v1alpha1.DeviceReaction) ([]usage.DeviceID, error) {
	if i.view == nil {
		return nil, errors.New("ResourceSlices are not watched: enable liveData (--live-data)")
	}
	if r.Spec.When.Taint == nil && i.conditions == nil {
		return nil, errors.New("nodes and the health of devices are not watched: enable controller.reactions (--guard-reactions)")
	}
	view := i.view.Snapshot()
	found := reaction.Find(r, reaction.Sources{View: view, Nodes: i.nodes(), Health: i.health, Bindings: i.bindings}, &patch.Compiler{})
	if found.Unknown != "" {
		return nil, fmt.Errorf("which devices are sick is unknown: %s", found.Unknown)
	}
	var devices []usage.DeviceID
	for name := range found.Sick {
		devices = append(devices, usage.DeviceID(name))
	}
	if r.Spec.Then.WithPartitions {
		devices = append(devices, siblings.Of(view.PublishedSlices(), slices.Values(devices))...)
	}
	slices.SortFunc(devices, usage.DeviceID.Compare)
	return devices, nil
}

// bindings are the outcomes of binding conditions in claims now. A failure that kube-scheduler has taken
// back is not among them: the controller, which remembers it, asks the thresholds before each drain.
func (i *Estimator) bindings() *reaction.Bindings {
	return reaction.BindingsOf(placement.Stored[*resourceapi.ResourceClaim](i.factory.Resource().V1().ResourceClaims().Informer().GetStore()), time.Now())
}

// health is what pods and claims report.
func (i *Estimator) health() *health.Records {
	records := &health.Records{}
	for _, claim := range placement.Stored[*resourceapi.ResourceClaim](i.factory.Resource().V1().ResourceClaims().Informer().GetStore()) {
		records.AddClaim(claim)
	}
	for _, pod := range placement.Stored[*corev1.Pod](i.factory.Core().V1().Pods().Informer().GetStore()) {
		records.AddPod(pod, i.Index.Claim)
	}
	return records
}

// nodes lists the nodes; nil while they are not read.
func (i *Estimator) nodes() func() []*corev1.Node {
	if i.conditions == nil || !i.conditions.HasSynced() {
		return nil
	}
	return func() []*corev1.Node { return placement.Stored[*corev1.Node](i.conditions.GetStore()) }
}

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
