package tracker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
)

// Sources are the informers that a tracker reads. The caller that sets the fields runs the
// informers. They must be of kinds that the API server serves, because the tracker waits
// until all have synced. [NewSources] makes informers that handle kinds that are not
// served.
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
// read in the newest version that is served: v1, v1beta2 or v1alpha3. For a kind that is
// not installed or that the client is not allowed to read, there is a [Condition] and a log
// entry, and reading is tried again. With kinds only these are read, and ResourceSlices.
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
		if err := informer.SetTransform(trim); err != nil {
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
	var informer cache.SharedIndexInformer
	observed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContextFunc(ctx, options)
			h.observe(kind, err)
			if apierrors.IsNotFound(err) && h.removed(kind, time.Now()) && len(informer.GetStore().ListKeys()) > 0 {
				h.logger.Info("No longer served; forgetting what was read of this kind", "kind", kind)
				return &corev1.List{}, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := lw.WatchFuncWithContext(ctx, options)
			h.observe(kind, err)
			return w, err
		},
	}
	informer = cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(observed, client), example,
		cache.SharedIndexInformerOptions{ObjectDescription: string(kind)})
	// It fails only for an informer that runs.
	_ = informer.SetWatchErrorHandlerWithContext(h.failed(kind))
	return informer
}

// failed logs what observe has not: an informer that tries again and again logs each time.
func (h *health) failed(kind Kind) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, reflector *cache.Reflector, err error) {
		if reason, _ := reasonOf(kind, err); reason == "" {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		}
	}
}

// trim saves memory: nothing reads managed fields, and the devices of a slice are mostly alike. Informers hand each
// object that they decode to it once.
func trim(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	if slice, ok := object.(*resourceapi.ResourceSlice); ok {
		compact.Slice(slice)
	}
	return object, nil
}

// The reasons of a [Condition].
const (
	// ReasonWaiting: nothing has been answered yet.
	ReasonWaiting = "Waiting"
	// ReasonWatching: the kind is read and watched.
	ReasonWatching = "Watching"
	// ReasonNotInstalled: the API server has no such kind. The view is complete
	// without it, and the kind is tried again with growing delays of up to a minute.
	// Rules that were read before are removed from the view after ten seconds.
	ReasonNotInstalled = "NotInstalled"
	// ReasonForbidden: the identity may not list and watch the kind. The view goes on
	// without it, or with what was read before.
	ReasonForbidden = "Forbidden"
	// ReasonUnreachable: the API server does not answer, or with another error.
	ReasonUnreachable = "Unreachable"
)

// A Condition is the state of reading one kind.
type Condition struct {
	Kind Kind `json:"kind"`
	// Available is true while the kind is read.
	Available bool `json:"available"`
	// Reason is one of the constants.
	Reason string `json:"reason"`
	// Message is for people: what is wrong, and what would make it right.
	Message string `json:"message,omitempty"`
	// Since is when Reason last changed.
	Since time.Time `json:"since"`
}

// health keeps the conditions of the sources that are ours.
type health struct {
	logger     logr.Logger
	mutex      sync.Mutex
	conditions map[Kind]*Condition
	dispensed  map[Kind]chan struct{} // closed when the view no longer waits for the kind
}

func newHealth(logger logr.Logger, read []Kind, now time.Time) *health {
	h := &health{logger: logger, conditions: map[Kind]*Condition{}, dispensed: map[Kind]chan struct{}{}}
	for _, kind := range read {
		h.conditions[kind] = &Condition{Kind: kind, Reason: ReasonWaiting, Since: now}
		if kind != SliceKind { // without slices there is nothing to show
			h.dispensed[kind] = make(chan struct{})
		}
	}
	return h
}

// observe notes how a list or a watch ended.
func (h *health) observe(kind Kind, err error) {
	reason, message := reasonOf(kind, err)
	if reason == "" {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c := h.conditions[kind]
	c.Message = message
	if c.Reason == reason {
		return
	}
	switch {
	case reason == ReasonWatching && c.Reason == ReasonWaiting:
		h.logger.V(1).Info("Watching", "kind", kind)
	case reason == ReasonWatching:
		h.logger.Info("Watching again", "kind", kind, "after", time.Since(c.Since).Round(time.Second).String())
	default:
		h.logger.Info("Cannot watch; continuing without this kind", "kind", kind, "reason", reason, "message", message)
	}
	c.Reason, c.Available, c.Since = reason, reason == ReasonWatching, time.Now()
	if reason == ReasonNotInstalled || reason == ReasonForbidden {
		if done := h.dispensed[kind]; done != nil && !isClosed(done) {
			close(done)
		}
	}
}

// absence is how long rules that were read remain while they are not served: one of several API servers,
// or a proxy, can answer so for a moment.
const absence = 10 * time.Second

// removed reports whether the API server no longer serves rules, though it serves slices. Other kinds
// are kept: without slices, allocated devices would seem to be gone, and a scheduler keeps its patches.
func (h *health) removed(kind Kind, now time.Time) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c, published := h.conditions[kind], h.conditions[SliceKind]
	return kind == RuleKind && c.Reason == ReasonNotInstalled && now.Sub(c.Since) >= absence && published != nil && published.Available
}

// reasonOf turns the result of a request into a reason; "" for a result that is not about the
// kind: the end of a context, or an error after which the informer lists again.
func reasonOf(kind Kind, err error) (reason, message string) {
	switch {
	case err == nil:
		return ReasonWatching, ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err), apierrors.IsTooManyRequests(err):
		return "", ""
	case apierrors.IsNotFound(err):
		return ReasonNotInstalled, fmt.Sprintf("the API server has no %s: %v; %s", kind, err, remedies[kind])
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return ReasonForbidden, fmt.Sprintf("%s cannot be read: %v; grant list and watch", kind, err)
	default:
		return ReasonUnreachable, fmt.Sprintf("%s cannot be read: %v", kind, err)
	}
}

// remedies are the steps that install a kind.
var remedies = map[Kind]string{
	SliceKind: "it requires Kubernetes 1.34",
	ClassKind: "it requires Kubernetes 1.34",
	PatchKind: "install its CustomResourceDefinition with the chart of dra-steward",
	RuleKind:  "it requires Kubernetes 1.37, or the feature gate DRADeviceTaintRules and --runtime-config",
}

// list returns the conditions in the order of the kinds.
func (h *health) list() (all []Condition) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, kind := range allKinds() {
		if c := h.conditions[kind]; c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// Conditions are the states of reading each kind, in a fixed order. For informers that the
// caller runs they report only whether they have synced.
func (t *Tracker) Conditions() []Condition {
	if h := t.options.Sources.health; h != nil {
		return h.list()
	}
	var all []Condition
	for kind, informer := range t.options.Sources.all() {
		c := Condition{Kind: kind, Reason: ReasonWaiting}
		if informer.HasSynced() {
			c.Reason, c.Available = ReasonWatching, true
		}
		all = append(all, c)
	}
	return all
}

// Ready is nil once the tracker has synced; before that, the error names what it waits for.
func (t *Tracker) Ready() error {
	if cache.IsDone(t.HasSyncedChecker()) {
		return nil
	}
	conditions := slices.DeleteFunc(t.Conditions(), func(c Condition) bool { return c.Available })
	if len(conditions) == 0 {
		return errors.New("the first view of the devices is not complete yet")
	}
	all := make([]error, 0, len(conditions))
	for _, c := range conditions {
		if c.Message == "" {
			c.Message = fmt.Sprintf("%s: not synced yet", c.Kind)
		}
		all = append(all, errors.New(c.Message))
	}
	return errors.Join(all...)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// ruleVersions are the versions of DeviceTaintRule, newest first. They differ in
// nothing but their name: each is read as v1.
func ruleVersions() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		all = append(all, schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"})
	}
	return all
}

// patchVersions are the versions of ResourceSlicePatch.
func patchVersions() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)}
}

// convertingClient reads a kind in the first version that the API server has, as *T.
type convertingClient[T any] struct {
	client    dynamic.Interface
	resources []schema.GroupVersionResource
	last      atomic.Int32 // index of the version that worked last
}

func (c *convertingClient[T]) listWatch() *cache.ListWatch {
	return &cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}
}

// try calls f with the versions, first the one that worked last, until one is served.
func (c *convertingClient[T]) try(f func(dynamic.ResourceInterface) error) (err error) {
	last := int(c.last.Load())
	order := slices.Concat(c.resources[last:last+1], c.resources[:last], c.resources[last+1:])
	for _, resource := range order {
		if err = f(c.client.Resource(resource)); !apierrors.IsNotFound(err) {
			c.last.Store(int32(slices.Index(c.resources, resource)))
			return err
		}
	}
	return err
}

func (c *convertingClient[T]) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	result := &corev1.List{}
	err := c.try(func(client dynamic.ResourceInterface) error {
		list, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		result.ListMeta = metav1.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount()}
		result.Items = make([]runtime.RawExtension, 0, len(list.Items))
		for i := range list.Items {
			object, err := convert[T](&list.Items[i])
			if err != nil {
				return err
			}
			result.Items = append(result.Items, runtime.RawExtension{Object: object})
		}
		return nil
	})
	return result, err
}

func (c *convertingClient[T]) watch(ctx context.Context, options metav1.ListOptions) (result watch.Interface, err error) {
	err = c.try(func(client dynamic.ResourceInterface) error {
		result, err = client.Watch(ctx, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	return convertWatch(result, func(event watch.Event) watch.Event {
		if object, ok := event.Object.(*unstructured.Unstructured); ok {
			converted, err := convert[T](object)
			if err != nil {
				status := apierrors.NewInternalError(err).Status()
				return watch.Event{Type: watch.Error, Object: &status}
			}
			event.Object = converted
		}
		return event
	}), nil
}

// convert reads an object as *T.
func convert[T any](object *unstructured.Unstructured) (runtime.Object, error) {
	out, err := newer.Convert[T](object)
	if err != nil {
		return nil, err
	}
	result, ok := any(out).(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API type", out)
	}
	return result, nil
}

// A PatchReader reads ResourceSlicePatches alone, for who has the slices from elsewhere and
// applies the patches by itself, as the scheduler does with a [patch.Set].
type PatchReader struct {
	// Informer has *v1alpha1.ResourceSlicePatch.
	Informer cache.SharedIndexInformer

	health *health
}

// NewPatchReader returns a reader that reads nothing yet. A problem becomes its [Condition]
// and a log entry, and reading is tried again.
func NewPatchReader(config *rest.Config, logger logr.Logger) (*PatchReader, error) {
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for ResourceSlicePatches: %w", err)
	}
	health := newHealth(logger, []Kind{PatchKind}, time.Now())
	informer := health.informer(PatchKind, nil, untyped)
	if err := informer.SetTransform(trim); err != nil {
		return nil, err
	}
	return &PatchReader{Informer: informer, health: health}, nil
}

// Run reads until ctx ends.
func (s *PatchReader) Run(ctx context.Context) { s.Informer.RunWithContext(ctx) }

// Condition is the state of reading.
func (s *PatchReader) Condition() Condition { return s.health.list()[0] }

// Unavailable returns a channel that is closed once the API server has answered that it
// does not serve patches or that reading them is not allowed: a caller that waits for the
// Informer to sync can stop.
func (s *PatchReader) Unavailable() <-chan struct{} { return s.health.dispensed[PatchKind] }

// Ready is nil once patches have been read, or cannot be; before that, the error names what
// it waits for.
func (s *PatchReader) Ready() error {
	if s.Informer.HasSynced() || isClosed(s.Unavailable()) {
		return nil
	}
	if c := s.Condition(); c.Message != "" {
		return errors.New(c.Message)
	}
	return fmt.Errorf("%s: not synced yet", PatchKind)
}

// All returns the patches that have been read, in the order of their names.
func (s *PatchReader) All() iter.Seq[*v1alpha1.ResourceSlicePatch] {
	return func(yield func(*v1alpha1.ResourceSlicePatch) bool) {
		for _, key := range slices.Sorted(slices.Values(s.Informer.GetStore().ListKeys())) {
			object, exists, err := s.Informer.GetStore().GetByKey(key)
			if p, ok := object.(*v1alpha1.ResourceSlicePatch); ok && exists && err == nil && !yield(p) {
				return
			}
		}
	}
}
