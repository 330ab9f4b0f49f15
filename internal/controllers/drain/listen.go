package drain

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// listen adds the handlers: a drain, or a rule of a drain, wakes that drain; whatever
// else can change what drains decide wakes all that go on.
func (c *Controller) listen() (synced []cache.DoneChecker, stop func(), err error) {
	var stops []func() error
	stop = func() { _ = errors.Join(callAll(stops)...) } // the only error is that there is no such handler any more
	for _, l := range []struct {
		informer cache.SharedIndexInformer
		changed  func(object any)
		wait     bool
	}{
		{c.informer, c.drainChanged, true},
		{c.options.TaintRules, c.ruleChanged, false}, // which may not be served
		{c.options.Claims, c.somethingChanged, true},
		{c.options.Pods, c.somethingChanged, true},
		{c.options.Budgets, c.somethingChanged, true},
	} {
		handle, err := l.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    l.changed,
			UpdateFunc: func(_, object any) { l.changed(object) },
			DeleteFunc: l.changed,
		})
		if err != nil {
			stop()
			return nil, nil, err
		}
		stops = append(stops, func() error { return l.informer.RemoveEventHandler(handle) })
		if l.wait {
			synced = append(synced, handle.HasSyncedChecker())
		}
	}
	slices := c.options.Tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.somethingChanged,
		UpdateFunc: func(_, object any) { c.somethingChanged(object) },
		DeleteFunc: c.somethingChanged,
	})
	stops = append(stops, func() error { c.options.Tracker.RemoveEventHandler(slices); return nil })
	synced = append(synced, c.options.UsageSynced...)
	return append(synced, c.options.Tracker.HasSyncedChecker()), stop, nil
}

func callAll(all []func() error) (errs []error) {
	for _, f := range all {
		errs = append(errs, f())
	}
	return errs
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
	if name, _ := OwnerOf(rule); name != "" {
		c.queue.AddAfter(name, window)
		return
	}
	c.wakeAll() // somebody may have taken the owner away
}

// somethingChanged leaves out pods without claims, which are most.
func (c *Controller) somethingChanged(object any) {
	if pod, ok := object.(*corev1.Pod); ok && len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	c.wakeAll()
}
