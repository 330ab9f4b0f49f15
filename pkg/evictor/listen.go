package evictor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// listen adds the handlers, which only note who may be concerned, and returns what to
// wait for, and what to wait for where rules are served.
func (c *Controller) listen(ctx context.Context, running *sync.WaitGroup) (synced, rules cache.DoneChecker, _ error) {
	handle, err := c.options.Rules.AddEventHandlerWithOptions(handler(c.ruleChanged), cache.HandlerOptions{Logger: &c.options.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("evictor: informer of DeviceTaintRules: %w", err)
	}
	devices := c.options.Tracker.AddEventHandler(handler(c.sliceChanged))
	stop := c.options.Usage.Watch(func(pod types.NamespacedName) { c.dirty.add(pod) })
	running.Go(func() {
		<-ctx.Done()
		stop()
		c.options.Tracker.RemoveEventHandler(devices)
		// The only error is that there is no such handler any more.
		_ = c.options.Rules.RemoveEventHandler(handle)
	})
	return devices, handle.HasSyncedChecker(), nil
}

// handler is one function for all events of a kind: the object before, nil for a new
// one, and after, nil for a deleted one. A deletion that was missed hands over the last
// state that was seen.
func handler[T any](changed func(before, after *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, as[T](object)) },
		UpdateFunc: func(before, after any) { changed(as[T](before), as[T](after)) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if last := as[T](object); last != nil {
				changed(last, nil)
			}
		},
	}
}

func as[T any](object any) *T {
	typed, _ := object.(*T)
	return typed
}

func (c *Controller) sliceChanged(before, after *resourceapi.ResourceSlice) {
	c.countDevices(before, after)
	c.dirty.during(func() {
		for id, taints := range changedDevices(before, after) {
			c.view.seen.keep(id, taints)
			c.dirty.add(c.options.Usage.Concerned(id)...)
		}
	})
}

// countDevices keeps the numbers of the devices of drivers.
func (c *Controller) countDevices(before, after *resourceapi.ResourceSlice) {
	if before == nil || after == nil || len(before.Spec.Devices) != len(after.Spec.Devices) {
		c.statuses.published.Add(1)
	}
	slice := before
	if after != nil {
		slice = after
	}
	var count driverCount
	if published := c.options.Tracker.Snapshot().Published(slice.Name); published != nil {
		count = driverCount{driver: published.Spec.Driver, published: len(published.Spec.Devices)}
		for i := range published.Spec.Devices {
			if evicts(published.Spec.Devices[i].Taints) {
				count.tainted++
			}
		}
	}
	var warning string
	c.finish(func() {
		c.breaker.drivers.set(slice.Name, count)
		sum := c.breaker.drivers.of[slice.Spec.Driver]
		warning = c.breaker.warn(slice.Spec.Driver, sum)
		c.options.Metrics.devices(slice.Spec.Driver, sum)
	})
	if warning != "" {
		c.options.Logger.Info("A driver has tainted many of its devices", "driver", slice.Spec.Driver, "because", warning)
		c.report(corev1.EventTypeWarning, "DriverTaintsDevices", warning)
	}
}

func evicts(taints []resourceapi.DeviceTaint) bool {
	return slices.ContainsFunc(taints, func(t resourceapi.DeviceTaint) bool { return t.Effect == resourceapi.DeviceTaintEffectNoExecute })
}

// ruleChanged is for devices that no slice publishes, about which the tracker says
// nothing; for what the rule acknowledges; and for its status.
func (c *Controller) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	c.statuses.ruleChanged(before, after)
	said := after != nil && c.acknowledge(after.UID, after.Annotations)
	if before != nil && after != nil && before.UID == after.UID && sameSpec(before.Spec, after.Spec) && !said {
		return
	}
	c.dirty.during(func() {
		for _, rule := range []*resourceapi.DeviceTaintRule{before, after} {
			if rule == nil {
				continue
			}
			for _, id := range c.options.Usage.Allocated(rule.Spec.DeviceSelector) {
				if said || !c.published(id) {
					c.dirty.add(c.options.Usage.Concerned(id)...)
				}
			}
		}
	})
	if said {
		c.wakeUp()
	}
}

// sameSpec says whether two rules evict the same, and preview the same: since when a taint
// is there matters only if it evicts.
func sameSpec(a, b resourceapi.DeviceTaintRuleSpec) bool {
	if b.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
		a.Taint.TimeAdded, b.Taint.TimeAdded = nil, nil
	}
	return equality.Semantic.DeepEqual(a, b)
}

func (c *Controller) published(id DeviceID) bool {
	_, published := c.options.Tracker.Snapshot().Device(id.Driver, id.Pool, id.Device)
	return published
}

// served says whether the API server has DeviceTaintRules that can be read.
func (c *Controller) served() bool {
	for _, condition := range c.options.Tracker.Conditions() {
		if condition.Kind == tracker.RuleKind {
			return condition.Reason != tracker.ReasonNotInstalled && condition.Reason != tracker.ReasonForbidden
		}
	}
	return true
}
