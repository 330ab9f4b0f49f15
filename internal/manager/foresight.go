package manager

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/impact"
	"github.com/dra-steward/dra-steward/internal/placement"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// keepPod keeps what the evictor and foresight read of a pod.
func keepPod(object any) (any, error) {
	stripped, err := evictor.StripPod(object)
	pod, is := stripped.(*corev1.Pod)
	if err != nil || !is {
		return stripped, err
	}
	object, err = placement.Keep(object)
	if kept, is := object.(*corev1.Pod); is {
		kept.CreationTimestamp, kept.Status.Conditions = pod.CreationTimestamp, pod.Status.Conditions
	}
	return object, err
}

// keepNode keeps what foresight and the metrics of capacity read of a node.
func keepNode(object any) (any, error) {
	node, is := object.(*corev1.Node)
	object, err := placement.Keep(object)
	if kept, also := object.(*corev1.Node); is && also {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
			}
		}
	}
	return object, err
}

// foresight finds out which pods of a drain do not land again, with the informers of the
// eviction; it is nil if it is off.
func (e *eviction) foresight() (drain.Foresight, error) {
	if !e.options.drainForesight {
		return nil, nil
	}
	nodes, templates := e.informers.Core().V1().Nodes().Informer(), e.informers.Resource().V1().ResourceClaimTemplates().Informer()
	if err := errors.Join(nodes.SetTransform(keepNode), templates.SetTransform(placement.Keep)); err != nil {
		return nil, err
	}
	found, checkers := impact.NewForesight(e.informers, devicesOfCluster{e}, impact.ListGroups(e.client))
	return func(ctx context.Context, d *v1alpha1.DeviceDrain, devices []usage.DeviceID) *guard.Stranded {
		for _, checker := range checkers {
			select {
			case <-checker.Done():
			default:
				return &guard.Stranded{NotComputed: checker.Name() + " is not synced yet"}
			}
		}
		return found.Stranded(ctx, d, devices)
	}, nil
}

// devicesOfCluster is what foresight needs of the devices.
type devicesOfCluster struct{ *eviction }

func (d devicesOfCluster) Snapshot() *tracker.Snapshot { return d.evictor.Tracker.Snapshot() }

// Minor asks the API server, once for each answer: a control plane is upgraded while the
// controller runs.
func (d devicesOfCluster) Minor() int {
	info, err := d.client.Discovery().ServerVersion()
	if err != nil {
		return 0
	}
	version, err := utilversion.ParseGeneric(info.GitVersion)
	if err != nil || version.Major() != 1 {
		return 0
	}
	return int(version.Minor())
}
