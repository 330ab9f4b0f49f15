package devicedrain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// listen adds the handlers: a drain, or a rule of a drain, wakes that drain; whatever
// else can change what drains decide wakes all that go on.
func (c *Controller) listen() (*reconcile.Handlers, error) {
	var handlers reconcile.Handlers
	for _, l := range []struct {
		informer cache.SharedIndexInformer
		changed  func(object any)
	}{
		{c.options.TaintRules, c.ruleChanged},
		{c.informer, c.drainChanged},
		{c.options.Claims, c.somethingChanged},
		{c.options.Pods, c.somethingChanged},
		{c.options.Budgets, c.somethingChanged},
	} {
		if err := handlers.Add(l.informer, handlerOf(l.changed)); err != nil {
			return nil, err
		}
	}
	handlers.Synced = handlers.Synced[1:] // the rules may not be served
	devices := c.options.Tracker.AddEventHandler(handlerOf(c.somethingChanged))
	handlers.OnRemove(func() { c.options.Tracker.RemoveEventHandler(devices) })
	handlers.Synced = slices.Concat(handlers.Synced, c.options.UsageSynced, []cache.DoneChecker{c.options.Tracker.HasSyncedChecker()})
	return &handlers, nil
}

// handlerOf calls changed for each event.
func handlerOf(changed func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed}
}

func (c *Controller) drainChanged(object any) {
	if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
		c.queue.Add(name.Name)
	}
}

func (c *Controller) ruleChanged(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	rule, ok := object.(*resourceapi.DeviceTaintRule)
	if !ok {
		return
	}
	if name, _ := drain.OwnerOf(rule); name != "" {
		c.queue.AddAfter(name, window)
		return
	}
	c.wakeAll() // a user may have removed the owner
}

// somethingChanged leaves out pods without claims, which are most.
func (c *Controller) somethingChanged(object any) {
	if pod, ok := object.(*corev1.Pod); ok && len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	c.wakeAll()
}
