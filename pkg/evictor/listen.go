package evictor

import (
	"context"
	"fmt"
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
func (c *Controller) listen(ctx context.Context, running *sync.WaitGroup) (synced []cache.DoneChecker, rules cache.DoneChecker, _ error) {
	for name, feed := range map[string]struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		"pods":             {c.options.Pods, handler(c.podChanged)},
		"claims":           {c.options.Claims, handler(c.claimChanged)},
		"DeviceTaintRules": {c.options.Rules, handler(c.ruleChanged)},
	} {
		handle, err := feed.informer.AddEventHandlerWithOptions(feed.handler, cache.HandlerOptions{Logger: &c.options.Logger})
		if err != nil {
			return nil, nil, fmt.Errorf("evictor: informer of %s: %w", name, err)
		}
		running.Go(func() {
			<-ctx.Done()
			// The only error is that there is no such handler any more.
			_ = feed.informer.RemoveEventHandler(handle)
		})
		if feed.informer == c.options.Rules {
			rules = handle.HasSyncedChecker()
			continue
		}
		synced = append(synced, handle.HasSyncedChecker())
	}
	handle := c.options.Tracker.AddEventHandler(handler(c.sliceChanged))
	running.Go(func() {
		<-ctx.Done()
		c.options.Tracker.RemoveEventHandler(handle)
	})
	return append(synced, handle), rules, nil
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

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func (c *Controller) podChanged(before, after *corev1.Pod) {
	pod := after
	if after == nil {
		pod = before
	} else if len(claimsOf(after)) == 0 && (before == nil || len(claimsOf(before)) == 0) {
		return // like most pods of most clusters
	}
	c.dirty.Add(nameOf(pod))
	c.statuses.touch()
}

// claimChanged ignores what does not matter, such as the heartbeats of drivers in
// status.devices.
func (c *Controller) claimChanged(before, after *resourceapi.ResourceClaim) {
	if before != nil && after != nil && before.UID == after.UID &&
		equality.Semantic.DeepEqual(before.Status.Allocation, after.Status.Allocation) &&
		equality.Semantic.DeepEqual(before.Status.ReservedFor, after.Status.ReservedFor) &&
		equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) {
		return
	}
	claim := after
	if claim == nil {
		claim = before
	}
	c.claimDirty(claim)
	c.statuses.touch()
}

func (c *Controller) claimDirty(claim *resourceapi.ResourceClaim) {
	for _, pod := range c.index.podsWith(claim.Namespace + "/" + claim.Name) {
		c.dirty.Add(nameOf(pod))
	}
}

func (c *Controller) sliceChanged(before, after *resourceapi.ResourceSlice) {
	for id, taints := range changedDevices(before, after) {
		c.view.seen.keep(id, taints)
		for _, claim := range c.index.claimsWith(id.String()) {
			c.claimDirty(claim)
		}
	}
	c.statuses.touch()
}

// ruleChanged is for devices that no slice publishes, about which the tracker says
// nothing; and for the status of the rule.
func (c *Controller) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	if before != nil && after != nil && before.UID == after.UID && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return
	}
	for _, rule := range []*resourceapi.DeviceTaintRule{before, after} {
		if rule == nil {
			continue
		}
		for _, key := range c.index.allocated(rule) {
			if id, ok := parseDevice(key); ok && !c.published(id) {
				for _, claim := range c.index.claimsWith(key) {
					c.claimDirty(claim)
				}
			}
		}
	}
	c.statuses.ruleChanged(before, after)
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
