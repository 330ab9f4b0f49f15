package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// informed is the world of a cluster: its DeviceClasses and ResourceSlices, kept up to
// date by informers.
type informed struct {
	factory informers.SharedInformerFactory
	classes resourcelisters.DeviceClassLister
	slices  cache.SharedIndexInformer
	synced  []cache.InformerSynced
	ordered orderedSlices
	server  serverVersion
}

var _ validate.World = (*informed)(nil)

// byPool is the index of the slices by driver and pool.
const byPool = "pool"

// newInformed prepares a world for the cluster of a kubeconfig file; an empty name is
// the cluster that this process runs in.
func newInformed(kubeconfig string) (*informed, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside of a cluster name a file, or switch --live-data off", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	resource := factory.Resource().V1()
	w := &informed{factory: factory, classes: resource.DeviceClasses().Lister(), slices: resource.ResourceSlices().Informer()}
	w.server.client = client.Discovery()
	w.synced = []cache.InformerSynced{resource.DeviceClasses().Informer().HasSynced, w.slices.HasSynced}
	if _, err := w.slices.AddEventHandler(&w.ordered); err != nil {
		return nil, err
	}
	return w, w.slices.AddIndexers(cache.Indexers{byPool: func(object any) ([]string, error) {
		slice, ok := object.(*resourceapi.ResourceSlice)
		if !ok {
			return nil, fmt.Errorf("unexpected %T", object)
		}
		return []string{poolKey(slice.Spec.Driver, slice.Spec.Pool.Name)}, nil
	}})
}

// withoutManagedFields saves the memory of what no rule looks at.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}

// poolKey cannot be ambiguous: a driver's name has no slash.
func poolKey(driver, pool string) string { return driver + "/" + pool }

// run keeps the world up to date until ctx ends.
func (w *informed) run(ctx context.Context) error {
	w.factory.StartWithContext(ctx)
	w.server.run(ctx)
	w.factory.Shutdown()
	return nil
}

// ready is nil once everything has been read for the first time.
func (w *informed) ready(*http.Request) error {
	for _, synced := range w.synced {
		if !synced() {
			return errors.New("DeviceClasses and ResourceSlices are not read yet")
		}
	}
	return nil
}

// Class returns a DeviceClass by name, nil if there is none.
func (w *informed) Class(name string) *resourceapi.DeviceClass {
	class, err := w.classes.Get(name)
	if err != nil { // the lister knows no error but that there is none
		return nil
	}
	return class
}

// Classes returns all DeviceClasses, in the order of their names.
func (w *informed) Classes() iter.Seq[*resourceapi.DeviceClass] {
	all, err := w.classes.List(labels.Everything())
	if err != nil { // cannot be, it lists a map
		return func(func(*resourceapi.DeviceClass) bool) {}
	}
	slices.SortFunc(all, func(a, b *resourceapi.DeviceClass) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Values(all)
}

// Pool returns the slices of a driver's pool, in the order of their names.
func (w *informed) Pool(driver, name string) []*resourceapi.ResourceSlice {
	objects, err := w.slices.GetIndexer().ByIndex(byPool, poolKey(driver, name))
	if err != nil { // cannot be, the index exists
		return nil
	}
	return sorted(objects)
}

func sorted(objects []any) (all []*resourceapi.ResourceSlice) {
	for _, object := range objects {
		if slice, ok := object.(*resourceapi.ResourceSlice); ok {
			all = append(all, slice)
		}
	}
	slices.SortFunc(all, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Slices returns all ResourceSlices, driver by driver.
func (w *informed) Slices() iter.Seq[*resourceapi.ResourceSlice] { return w.ordered.all() }

// Patches returns none: the webhook does not read them, and judges a patch by itself.
func (w *informed) Patches() iter.Seq[*v1alpha1.ResourceSlicePatch] {
	return func(func(*v1alpha1.ResourceSlicePatch) bool) {}
}
