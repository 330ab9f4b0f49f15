package tracker

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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
	return func(yield func(Kind, cache.SharedIndexInformer) bool) {
		for _, kind := range allKinds() {
			if informer := *s.field(kind); informer != nil && !yield(kind, informer) {
				return
			}
		}
	}
}

// field is the informer of a kind.
func (s *Sources) field(kind Kind) *cache.SharedIndexInformer {
	switch kind {
	case RuleKind:
		return &s.Rules
	case PatchKind:
		return &s.Patches
	case ClassKind:
		return &s.Classes
	default:
		return &s.Slices
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

// NewSources returns informers, which hold objects without their managed fields. Rules are
// read in the newest version that is served: v1, v1beta2 or v1alpha3. A kind that is not
// installed or must not be read becomes a [Condition], the logger is told, and it is tried
// again. With kinds only these are read, and ResourceSlices.
func NewSources(config *rest.Config, logger logr.Logger, kinds ...Kind) (Sources, error) {
	return newSources(config, logger, "", kinds)
}

// NewNodeSources is NewSources for who needs to know one node: of the slices only those
// that are for it, so that what is read does not grow with the cluster, and the rules.
func NewNodeSources(config *rest.Config, logger logr.Logger, node string) (Sources, error) {
	return newSources(config, logger, node, []Kind{RuleKind})
}

func newSources(config *rest.Config, logger logr.Logger, node string, kinds []Kind) (Sources, error) {
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
	read := allKinds()
	if len(kinds) > 0 {
		read = slices.DeleteFunc(read, func(kind Kind) bool { return kind != SliceKind && !slices.Contains(kinds, kind) })
	}
	sources := Sources{health: newHealth(logger, read, time.Now())}
	for _, kind := range read {
		informer := sources.health.informer(kind, client, untyped)
		if kind == SliceKind && node != "" {
			informer = sources.health.observed(kind, &resourceapi.ResourceSlice{}, client, onNode(typed(client.ResourceV1().ResourceSlices()), node))
		}
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return Sources{}, err
		}
		*sources.field(kind) = informer
	}
	return sources, nil
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

// onNode lists and watches the slices of a node alone.
func onNode(all *cache.ListWatch, node string) *cache.ListWatch {
	here := fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, node).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = here
			return all.ListWithContextFunc(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = here
			return all.WatchFuncWithContext(ctx, options)
		},
	}
}

// informer makes the informer of a kind, whose requests are observed.
func (h *health) informer(kind Kind, client kubernetes.Interface, untyped dynamic.Interface) cache.SharedIndexInformer {
	switch kind {
	case RuleKind:
		rules := &convertingClient[resourceapi.DeviceTaintRule]{client: untyped, resources: ruleVersions()}
		return h.observed(kind, &resourceapi.DeviceTaintRule{}, untyped, rules.listWatch())
	case PatchKind:
		patches := &convertingClient[v1alpha1.ResourceSlicePatch]{client: untyped, resources: patchVersions()}
		return h.observed(kind, &v1alpha1.ResourceSlicePatch{}, untyped, patches.listWatch())
	case ClassKind:
		return h.observed(kind, &resourceapi.DeviceClass{}, client, typed(client.ResourceV1().DeviceClasses()))
	default:
		return h.observed(kind, &resourceapi.ResourceSlice{}, client, typed(client.ResourceV1().ResourceSlices()))
	}
}

// observed makes an informer that notes how its requests end.
func (h *health) observed(kind Kind, example runtime.Object, client any, lw *cache.ListWatch) cache.SharedIndexInformer {
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
