package nodeagent

import (
	"context"
	"errors"
	"sync"

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

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A World is what the API server says about one node: its pods and slices, watched; the
// claims of its pods, read by name; and the taint rules of the cluster. Never what is
// on other nodes.
type World struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	pods    cache.SharedIndexInformer
	tracker *tracker.Tracker
	changed chan struct{}

	mutex  sync.Mutex                            // guards claims
	claims map[string]*resourceapi.ResourceClaim // namespace/name -> claim of a pod of the node
}

// NewWorld prepares the view of a node. DeviceTaintRules are read in whatever version the
// API server has them.
func NewWorld(config *rest.Config, node string, log logr.Logger) (*World, error) {
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
	w := &World{
		client: client, changed: make(chan struct{}, 1), claims: map[string]*resourceapi.ResourceClaim{},
		factory: informers.NewSharedInformerFactoryWithOptions(client, 0, here, informers.WithTransform(trim)),
		tracker: tracker.New(tracker.Options{Sources: sources, Logger: log}),
	}
	w.pods = w.factory.Core().V1().Pods().Informer()
	signal := func(any) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	_, err = w.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: signal, DeleteFunc: signal, UpdateFunc: func(_, now any) { signal(now) },
	})
	w.tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: signal, DeleteFunc: signal, UpdateFunc: func(_, now any) { signal(now) },
	})
	return w, err
}

func trim(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}

// Run keeps the view up to date until ctx ends.
func (w *World) Run(ctx context.Context) error {
	w.factory.StartWithContext(ctx)
	defer w.factory.Shutdown()
	return w.tracker.Run(ctx)
}

// Ready is nil once everything has been read for the first time.
func (w *World) Ready() error {
	if !w.pods.HasSynced() {
		return errors.New("the pods of the node are not read yet")
	}
	return w.tracker.Ready()
}

func (w *World) wait(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.pods.HasSynced, w.tracker.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// Pods returns the pods of the node; never nil.
func (w *World) Pods() []*corev1.Pod {
	pods := []*corev1.Pod{}
	for _, object := range w.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Taints returns the taints of a device of the node, from its slice and from rules.
func (w *World) Taints(driver, pool, device string) (taints []resourceapi.DeviceTaint) {
	known, ok := w.tracker.Snapshot().Device(driver, pool, device)
	if !ok {
		return nil
	}
	for _, taint := range known.Taints() {
		taints = append(taints, taint.DeviceTaint)
	}
	return taints
}

// Claims returns the claims of pods. A claim that is allocated and reserved for its pod
// does not change any more, and is read once. One that does not exist is left out.
func (w *World) Claims(ctx context.Context, pods []*corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	all, kept := []*resourceapi.ResourceClaim{}, map[string]*resourceapi.ResourceClaim{}
	var errs []error
	for _, pod := range pods {
		for _, name := range claimsOf(pod) {
			key := pod.Namespace + "/" + name
			claim := kept[key]
			if claim == nil {
				claim = w.claims[key]
			}
			if claim == nil || claim.Status.Allocation == nil || !reserved(claim, pod.UID) {
				read, err := w.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					if !apierrors.IsNotFound(err) {
						errs = append(errs, err)
					}
					continue
				}
				claim = read
			}
			kept[key] = claim
		}
	}
	for _, claim := range kept {
		all = append(all, claim)
	}
	w.claims = kept
	return all, errors.Join(errs...)
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

func reserved(claim *resourceapi.ResourceClaim, pod types.UID) bool {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.UID == pod {
			return true
		}
	}
	return false
}
