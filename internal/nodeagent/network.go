package nodeagent

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// networkPools are the slices that name no node: those of pools that several nodes can use.
type networkPools struct {
	factory informers.SharedInformerFactory
	slices  cache.SharedIndexInformer
}

// byPool is the index of slices by driver and pool.
const byPool = "pool"

func newNetworkPools(client kubernetes.Interface) (*networkPools, error) {
	withoutNode := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, "").String()
	})
	n := &networkPools{factory: informers.NewSharedInformerFactoryWithOptions(client, 0, withoutNode, informers.WithTransform(onlyTaints))}
	n.slices = n.factory.Resource().V1().ResourceSlices().Informer()
	return n, n.slices.AddIndexers(cache.Indexers{byPool: func(object any) ([]string, error) {
		slice, is := object.(*resourceapi.ResourceSlice)
		if !is {
			return nil, fmt.Errorf("%T is not a ResourceSlice", object)
		}
		return []string{slice.Spec.Driver + "/" + slice.Spec.Pool.Name}, nil
	}})
}

// onlyTaints leaves what the agent needs of a slice: every agent keeps all of these slices.
func onlyTaints(object any) (any, error) {
	slice, is := object.(*resourceapi.ResourceSlice)
	if !is {
		return object, nil
	}
	kept := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice.Name, UID: slice.UID, ResourceVersion: slice.ResourceVersion}}
	kept.Spec.Driver, kept.Spec.Pool = slice.Spec.Driver, slice.Spec.Pool
	for i := range slice.Spec.Devices {
		if device := &slice.Spec.Devices[i]; len(device.Taints) > 0 {
			kept.Spec.Devices = append(kept.Spec.Devices, resourceapi.Device{Name: device.Name, Taints: device.Taints})
		}
	}
	return kept, nil
}

// taints returns those of the driver on a device, as the newest generation of the pool has
// them.
func (n *networkPools) taints(driver, pool, device string) (taints []resourceapi.DeviceTaint) {
	found, err := n.slices.GetIndexer().ByIndex(byPool, driver+"/"+pool)
	if err != nil {
		return nil // the index exists
	}
	newest := int64(-1)
	for _, object := range found {
		slice, is := object.(*resourceapi.ResourceSlice)
		if !is || slice.Spec.Pool.Generation < newest {
			continue
		}
		if slice.Spec.Pool.Generation > newest {
			newest, taints = slice.Spec.Pool.Generation, nil
		}
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == device {
				taints = slice.Spec.Devices[i].Taints
			}
		}
	}
	return taints
}
