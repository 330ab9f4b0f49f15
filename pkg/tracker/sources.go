package tracker

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Sources are the informers that a tracker reads. Whoever sets the fields runs the
// informers; they must be of kinds that the API server has, for the tracker waits until
// all have synced. [NewSources] makes informers that need no such care.
type Sources struct {
	// Slices has *resourceapi.ResourceSlice. It is required.
	Slices cache.SharedIndexInformer
	// Rules has *resourceapi.DeviceTaintRule; nil for none.
	Rules cache.SharedIndexInformer
	// Patches has *v1alpha1.ResourceSlicePatch; nil for none.
	Patches cache.SharedIndexInformer
	// Classes has *resourceapi.DeviceClass; nil for none. Patches that name a class need
	// it.
	Classes cache.SharedIndexInformer

	// health is set where the tracker runs the informers.
	health *health
}

// all yields the informers there are, in a fixed order.
func (s Sources) all() iter.Seq2[Kind, cache.SharedIndexInformer] {
	informers := map[Kind]cache.SharedIndexInformer{SliceKind: s.Slices, RuleKind: s.Rules, PatchKind: s.Patches, ClassKind: s.Classes}
	return func(yield func(Kind, cache.SharedIndexInformer) bool) {
		for _, kind := range kinds() {
			if informers[kind] != nil && !yield(kind, informers[kind]) {
				return
			}
		}
	}
}

// run runs the informers that are ours until ctx ends.
func (s Sources) run(ctx context.Context) {
	if s.health == nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, informer := range s.all() {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
}

// unavailable returns a channel that is closed once the view need not wait for a kind.
func (s Sources) unavailable(kind Kind) <-chan struct{} {
	if s.health == nil {
		return nil
	}
	s.health.mutex.Lock()
	defer s.health.mutex.Unlock()
	return s.health.dispensed[kind]
}

// NewSources returns informers for all kinds, without their managed fields. Rules are
// read in the newest version that is served: v1, v1beta2 or v1alpha3. A kind that is not
// installed or must not be read becomes a [Condition], and is tried again.
func NewSources(config *rest.Config, logger logr.Logger) (Sources, error) {
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return Sources{}, fmt.Errorf("client for ResourceSlices: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return Sources{}, fmt.Errorf("client for DeviceTaintRules: %w", err)
	}
	if logger.GetSink() == nil {
		logger = logr.Discard()
	}
	health := newHealth(logger, time.Now())
	resource := client.ResourceV1()
	rules := &convertingClient[resourceapi.DeviceTaintRule]{client: untyped, resources: ruleVersions()}
	patches := &convertingClient[v1alpha1.ResourceSlicePatch]{client: untyped, resources: patchVersions()}
	informers := [...]cache.SharedIndexInformer{
		health.informer(SliceKind, &resourceapi.ResourceSlice{}, client, typed(resource.ResourceSlices())),
		health.informer(RuleKind, &resourceapi.DeviceTaintRule{}, untyped, &cache.ListWatch{
			ListWithContextFunc: rules.list, WatchFuncWithContext: rules.watch}),
		health.informer(PatchKind, &v1alpha1.ResourceSlicePatch{}, untyped, &cache.ListWatch{
			ListWithContextFunc: patches.list, WatchFuncWithContext: patches.watch}),
		health.informer(ClassKind, &resourceapi.DeviceClass{}, client, typed(resource.DeviceClasses())),
	}
	for _, informer := range informers {
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return Sources{}, err
		}
	}
	return Sources{Slices: informers[0], Rules: informers[1], Patches: informers[2], Classes: informers[3], health: health}, nil
}

// typed makes a ListWatch of a client of one kind.
func typed[L runtime.Object](client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}
}

// informer makes an informer whose requests are observed.
func (h *health) informer(kind Kind, example runtime.Object, client any, lw *cache.ListWatch) cache.SharedIndexInformer {
	observed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContextFunc(ctx, options)
			h.observe(kind, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := lw.WatchFuncWithContext(ctx, options)
			h.observe(kind, err)
			return w, err
		},
	}
	return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(observed, client), example,
		cache.SharedIndexInformerOptions{ObjectDescription: string(kind)})
}

// withoutManagedFields saves the memory of what nobody looks at.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}
