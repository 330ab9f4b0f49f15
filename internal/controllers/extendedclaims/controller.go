package extendedclaims

import (
	"context"
	"fmt"
	"time"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Options of a controller.
type Options struct {
	// Pods and Claims are run by the caller. Pods need their status only, and claims no
	// managed fields.
	Pods, Claims cache.SharedIndexInformer
	// Ready is nil once Check knows what it needs; nil if it always does.
	Ready func() error
	// Check returns why a claim is refused, as if a user without exemptions created it now.
	Check func(ctx context.Context, claim *resourceapi.ResourceClaim) ([]Refusal, error)
	// Create creates an event.
	Create func(ctx context.Context, event *corev1.Event) error
	Logger logr.Logger
}

// A Controller creates the events.
type Controller struct {
	Options
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// checked has the claim of each pod that was checked, so that each is checked once.
	checked map[types.NamespacedName]types.UID
}

// New prepares a controller.
func New(o Options) *Controller {
	return &Controller{Options: o, checked: map[types.NamespacedName]types.UID{},
		queue: reconcile.Queue[types.NamespacedName](time.Second, 5*time.Minute)}
}

// Run reconciles until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	for informer, enqueue := range map[cache.SharedIndexInformer]func(any){c.Pods: c.enqueuePod, c.Claims: c.enqueueClaim} {
		handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue})
		if err != nil {
			return err
		}
		defer func() { _ = informer.RemoveEventHandler(handle) }()
	}
	ready := func() bool { return c.Ready == nil || c.Ready() == nil }
	if !cache.WaitForCacheSync(ctx.Done(), c.Pods.HasSynced, c.Claims.HasSynced, ready) {
		return nil // ctx has ended
	}
	reconcile.Loop(ctx, c.queue, c.reconcile, func(err error, key types.NamespacedName) {
		c.Logger.Error(err, "cannot check the claim for extended resources", "pod", key.String())
	})
	return nil
}

func (c *Controller) enqueuePod(object any) {
	if gone, is := object.(cache.DeletedFinalStateUnknown); is {
		object = gone.Obj
	}
	if pod, is := object.(*corev1.Pod); is && Asks(pod) != "" {
		c.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

func (c *Controller) enqueueClaim(object any) {
	claim, is := object.(*resourceapi.ResourceClaim)
	if !is || claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return
	}
	if owner := metav1.GetControllerOf(claim); owner != nil {
		c.queue.Add(types.NamespacedName{Namespace: claim.Namespace, Name: owner.Name})
	}
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) error {
	pod, err := get[*corev1.Pod](c.Pods, key)
	if err != nil {
		return err
	}
	if pod == nil || Asks(pod) == "" {
		delete(c.checked, key)
		return nil
	}
	claim, err := get[*resourceapi.ResourceClaim](c.Claims, types.NamespacedName{Namespace: key.Namespace, Name: Asks(pod)})
	if err != nil || claim == nil || !Belongs(claim, pod) || c.checked[key] == claim.UID {
		return err // an event follows when the claim is created
	}
	refusals, err := c.Check(ctx, claim)
	if err != nil {
		return err
	}
	if event := Decide(pod, claim.Name, refusals, metav1.Now()); event != nil {
		err := c.Create(ctx, event)
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("create the event on pod %s: %w", key, err)
		}
		c.Logger.Info("a claim for extended resources is refused by rules or policies", "pod", key.String(), "claim", claim.Name, "code", refusals[0].Code)
	}
	c.checked[key] = claim.UID
	return nil
}

// get returns an object of an informer, nil if there is none.
func get[T any](informer cache.SharedIndexInformer, key types.NamespacedName) (none T, err error) {
	object, exists, err := informer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return none, err
	}
	typed, is := object.(T)
	if !is {
		return none, fmt.Errorf("%s: unexpected %T", key, object)
	}
	return typed, nil
}
