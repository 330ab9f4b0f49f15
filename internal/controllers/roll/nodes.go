package roll

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// Nodes is an informer of nodes with what rolls read of them; the caller runs it.
func Nodes(client kubernetes.Interface) cache.SharedIndexInformer {
	nodes := coreinformers.NewNodeInformer(client, 0, cache.Indexers{})
	_ = nodes.SetTransform(keepNode) // it fails for an informer that runs
	return nodes
}

// keepNode drops the times of conditions, too: they change with each heartbeat.
func keepNode(object any) (any, error) {
	node, is := object.(*corev1.Node)
	if !is {
		return object, nil
	}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels, Annotations: node.Annotations}}
	kept.Spec.Unschedulable = node.Spec.Unschedulable
	for _, c := range node.Status.Conditions {
		kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
	}
	return kept, nil
}

// sameNode reports whether an update of a node changed nothing that rolls read.
func sameNode(old, object any) bool {
	a, is := old.(*corev1.Node)
	b, also := object.(*corev1.Node)
	return is && also && a.Spec.Unschedulable == b.Spec.Unschedulable && maps.Equal(a.Annotations, b.Annotations) &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Status.Conditions, b.Status.Conditions)
}

// condition is the status of a condition of a node.
func nodeCondition(node *corev1.Node, kind string) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if string(c.Type) == kind {
			return c.Status
		}
	}
	return ""
}

// Selects reports whether a roll selects a node.
func Selects(r *v1alpha1.DeviceRoll, node *corev1.Node) bool {
	switch only := r.Spec.Nodes; {
	case only == nil:
		return true
	case only.Names != nil:
		return slices.Contains(only.Names, node.Name)
	default:
		return labels.SelectorFromSet(only.Labels).Matches(labels.Set(node.Labels))
	}
}

// published are the devices of nodes.
type published struct {
	devices    []v1alpha1.DeviceName
	pools      []v1alpha1.RollPool
	incomplete string
}

// publishedBy are the devices of each node that a driver publishes; without a driver, those of all.
func publishedBy(driver string, view *tracker.Snapshot) map[string]*published {
	by := map[string]*published{}
	for slice := range view.PublishedSlices() {
		if driver != "" && slice.Spec.Driver != driver {
			continue
		}
		generation, complete := view.CompleteGeneration(slice.Spec.Driver, slice.Spec.Pool.Name)
		obsolete := complete && slice.Spec.Pool.Generation < generation
		for i := range slice.Spec.Devices {
			node := slice.Spec.NodeName
			if own := slice.Spec.Devices[i].NodeName; own != nil {
				node = own
			}
			if node == nil || obsolete {
				continue
			}
			if by[*node] == nil {
				by[*node] = &published{}
			}
			by[*node].add(slice, slice.Spec.Devices[i].Name, complete && generation == slice.Spec.Pool.Generation)
		}
	}
	return by
}

// add adds a device, unless its generation of the pool is not complete.
func (p *published) add(slice *resourceapi.ResourceSlice, device string, complete bool) {
	driver, pool := slice.Spec.Driver, slice.Spec.Pool.Name
	if !complete {
		p.incomplete = driver + "/" + pool
		return
	}
	p.devices = append(p.devices, v1alpha1.DeviceName{Driver: driver, Pool: pool, Device: device})
	for i := range p.pools {
		if p.pools[i].Driver == driver && p.pools[i].Name == pool {
			p.pools[i].Devices++
			return
		}
	}
	p.pools = append(p.pools, v1alpha1.RollPool{Driver: driver, Name: pool, Generation: slice.Spec.Pool.Generation, Devices: 1})
}

// has reports whether a node has the pool of a device.
func (p *published) has(name v1alpha1.DeviceName) bool {
	return slices.ContainsFunc(p.pools, func(pool v1alpha1.RollPool) bool { return pool.Driver == name.Driver && pool.Name == name.Pool })
}

// Published are the devices of each node that a driver publishes in complete pools; without a driver,
// those of all.
func Published(driver string, view *tracker.Snapshot) map[string][]v1alpha1.DeviceName {
	devices := map[string][]v1alpha1.DeviceName{}
	for node, found := range publishedBy(driver, view) {
		devices[node] = found.devices
	}
	return devices
}
