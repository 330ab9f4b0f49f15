package nodeagent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A NodeView is what the API server says about one node: its pods and slices, watched; the
// claims of its pods, read by name; and the taint rules of the cluster. Never what is
// on other nodes, but the slices of network pools if ReadNetworkPools is called.
type NodeView struct {
	client  kubernetes.Interface
	node    string
	factory informers.SharedInformerFactory
	pods    cache.SharedIndexInformer
	tracker *tracker.Tracker
	network *networkPools // nil: not read
	changed chan struct{}

	mutex  sync.Mutex            // guards what follows; it is not held while claims are read
	claims map[string]knownClaim // namespace/name -> claim of a pod of the node; replaced, never changed
	latest time.Time             // when the look began that found claims
	asOf   time.Time             // when all claims were read last
}

// NewNodeView prepares the view of a node. DeviceTaintRules are read in whatever version the
// API server has them.
func NewNodeView(config *rest.Config, node string, log logr.Logger) (*NodeView, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	here := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	})
	sources, err := tracker.NewNodeSources(config, log, node)
	if err != nil {
		return nil, err
	}
	w := &NodeView{
		client: client, node: node, changed: make(chan struct{}, 1), claims: map[string]knownClaim{},
		factory: informers.NewSharedInformerFactoryWithOptions(client, 0, here, informers.WithTransform(trim)),
		tracker: tracker.New(tracker.Options{Sources: sources, Logger: log}),
	}
	w.pods = w.factory.Core().V1().Pods().Informer()
	_, err = w.pods.AddEventHandler(w.signal())
	w.tracker.AddEventHandler(w.signal())
	return w, err
}

// ReadNetworkPools makes the view contain the drivers' taints on devices of network pools. Call
// it before Run.
func (w *NodeView) ReadNetworkPools() (err error) {
	if w.network, err = newNetworkPools(w.client); err != nil {
		return err
	}
	_, err = w.network.slices.AddEventHandler(w.signal())
	return err
}

// signal handles any event: something has changed.
func (w *NodeView) signal() cache.ResourceEventHandler {
	signal := func(any) { reconcile.Wake(w.changed) }
	return cache.ResourceEventHandlerFuncs{AddFunc: signal, DeleteFunc: signal, UpdateFunc: func(_, now any) { signal(now) }}
}

func trim(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}

// Run keeps the view up to date until ctx ends.
func (w *NodeView) Run(ctx context.Context) error {
	w.factory.StartWithContext(ctx)
	defer w.factory.Shutdown()
	if w.network != nil {
		w.network.factory.StartWithContext(ctx)
		defer w.network.factory.Shutdown()
	}
	return w.tracker.Run(ctx)
}

// Ready is nil once everything has been read for the first time.
func (w *NodeView) Ready() error {
	if !w.pods.HasSynced() {
		return errors.New("the pods of the node are not read yet")
	}
	if w.network != nil && !w.network.slices.HasSynced() {
		return errors.New("the slices of network pools are not read yet")
	}
	return w.tracker.Ready()
}

// allowed returns an error if the user is not allowed to read the pods or the slices of the node, for
// which informers would wait. Other problems are those of the informers.
func (w *NodeView) allowed(ctx context.Context) error {
	here := fields.OneTermEqualSelector("spec.nodeName", w.node).String()
	_, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: here, Limit: 1})
	if err == nil || !refused(err) {
		_, err = w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: here, Limit: 1})
	}
	if refused(err) {
		return err
	}
	return nil
}

func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

func (w *NodeView) wait(ctx context.Context) error {
	synced := []cache.InformerSynced{w.pods.HasSynced, w.tracker.HasSynced}
	if w.network != nil {
		synced = append(synced, w.network.slices.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// Pods returns the pods of the node; never nil.
func (w *NodeView) Pods() []*corev1.Pod {
	pods := []*corev1.Pod{}
	for _, object := range w.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Taints returns the taints of a device. Of a device in the slices of this node, and in network
// pools that are read, these are the taints of its driver and of rules. Of others, those whose
// slice is gone and those in network pools that are not read, the taints of rules, which name
// the device.
func (w *NodeView) Taints(driver, pool, device string) []resourceapi.DeviceTaint {
	return taintsOf(w.tracker.Snapshot(), w.network, driver, pool, device)
}

func taintsOf(snapshot *tracker.Snapshot, network *networkPools, driver, pool, device string) (taints []resourceapi.DeviceTaint) {
	if known, ok := snapshot.Device(driver, pool, device); ok {
		for _, taint := range known.Taints() {
			taints = append(taints, taint.DeviceTaint)
		}
		return taints
	}
	if network != nil {
		taints = slices.Clone(network.taints(driver, pool, device))
	}
	is := func(want *string, name string) bool { return want == nil || *want == name }
	for rule := range snapshot.Rules() {
		if by := rule.Spec.DeviceSelector; by != nil && is(by.Driver, driver) && is(by.Pool, pool) && is(by.Device, device) {
			taints = append(taints, rule.Spec.Taint)
		}
	}
	return taints
}

// Attributes returns the attributes of a device of this node by name; nil if it has none of
// them, or is in no slice of this node.
func (w *NodeView) Attributes(driver, pool, device string, names []string) map[string]string {
	known, ok := w.tracker.Snapshot().Device(driver, pool, device)
	if !ok || len(names) == 0 {
		return nil
	}
	return attributesOf(known.Merged(), driver, names)
}

// A knownClaim is a claim and the pods that it was read for.
type knownClaim struct {
	*resourceapi.ResourceClaim
	pods map[types.UID]bool
}

// covers reports whether the claim need not be read for a pod: it is allocated, and reserved
// for the pod or for its PodGroup, and does not change while the pod exists. Between two
// pods of a group the claim can have been allocated again.
func (k knownClaim) covers(pod types.UID) bool {
	return k.ResourceClaim != nil && k.Status.Allocation != nil && k.pods[pod] && reserved(k.ResourceClaim, pod)
}

// Claims returns the claims of pods that have not ended. A claim that is allocated and reserved is read once for
// each of its pods. One that does not exist is left out; one that cannot be read is as it
// was. An error comes with the time at which all claims were read last.
func (w *NodeView) Claims(ctx context.Context, pods []*corev1.Pod, now time.Time) (all []*resourceapi.ResourceClaim, asOf time.Time, err error) {
	w.mutex.Lock()
	before := w.claims
	w.mutex.Unlock()
	kept := map[string]knownClaim{}
	var errs []error
	for _, pod := range pods {
		if hasEnded(pod) {
			continue // its claims are not reserved for it any more, and would be read at each look
		}
		for _, name := range claimsOf(pod) {
			known, err := w.claim(ctx, pod, name, kept, before)
			if err != nil {
				errs = append(errs, err)
			}
			if known.ResourceClaim != nil {
				kept[pod.Namespace+"/"+name] = known
			}
		}
	}
	all = []*resourceapi.ResourceClaim{}
	for _, known := range kept {
		all = append(all, known.ResourceClaim)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if latest := !now.Before(w.latest); latest {
		w.claims, w.latest = kept, now
		if len(errs) == 0 {
			w.asOf = now
		}
	}
	if len(errs) == 0 {
		return all, time.Time{}, nil
	}
	return all, w.asOf, errors.Join(errs...)
}

// claim returns a claim of a pod: as it is known, or read.
func (w *NodeView) claim(ctx context.Context, pod *corev1.Pod, name string, kept, before map[string]knownClaim) (knownClaim, error) {
	key := pod.Namespace + "/" + name
	known, read := kept[key]
	if !read {
		known = before[key]
	}
	if known.covers(pod.UID) {
		return known, nil
	}
	claim, err := w.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return knownClaim{}, nil
	case err != nil:
		return known, err
	case known.ResourceClaim == nil || known.UID != claim.UID || known.pods == nil:
		known.pods = map[types.UID]bool{}
	}
	known.pods = maps.Clone(known.pods)
	known.ResourceClaim, known.pods[pod.UID] = claim, true
	return known, nil
}

// hasEnded reports whether a pod has ended and holds nothing.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// claimsOf lists the claims of a pod that have been made, of extended resources, too.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names
}

// reserved reports whether a claim is reserved for a pod, or for a group of pods.
func reserved(claim *resourceapi.ResourceClaim, pod types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return consumer.UID == pod || consumer.Resource != "pods"
	})
}
