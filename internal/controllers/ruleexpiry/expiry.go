// Package ruleexpiry deletes DeviceTaintRules whose time is over: those with the annotation
// dra-steward.io/expires, as "dra-steward taint --for" writes it. All its state is in
// the rules, so a restart forgets nothing.
package ruleexpiry

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// retryAfter is the pause after a deletion that failed.
const retryAfter = 10 * time.Second

// Options are what a Controller needs.
type Options struct {
	// Rules has *resourceapi.DeviceTaintRule, and is run by the caller.
	Rules cache.SharedIndexInformer
	// Delete deletes a rule that still is the one of a UID and resource version.
	Delete func(ctx context.Context, name string, uid types.UID, resourceVersion string) error
	Logger logr.Logger
}

// A Controller deletes rules whose time is over.
type Controller struct {
	options Options
	changed chan struct{}
	// wrong has the annotations of the last pass that cannot be read, by UID.
	wrong map[types.UID]string
}

// New makes a Controller.
func New(o Options) *Controller {
	return &Controller{options: o, changed: make(chan struct{}, 1)}
}

// Run deletes rules as their time comes, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	handle, err := c.options.Rules.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.wake() },
		UpdateFunc: func(any, any) { c.wake() },
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.options.Rules.RemoveEventHandler(handle) }()
	for {
		var timer <-chan time.Time
		if next, any := c.pass(ctx, time.Now()); any {
			timer = time.After(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-timer:
		}
	}
}

func (c *Controller) wake() { reconcile.Wake(c.changed) }

// maxSleep bounds a wait: timers stand still while a machine is suspended, but rules expire
// by the wall clock.
const maxSleep = time.Minute

// pass deletes expired rules and returns how long to wait, at most [maxSleep]; false if no
// rule expires.
func (c *Controller) pass(ctx context.Context, now time.Time) (next time.Duration, any bool) {
	next = maxSleep
	wrong := map[types.UID]string{}
	sooner := func(d time.Duration) { next, any = min(next, d), true }
	for _, object := range c.options.Rules.GetStore().List() {
		if ctx.Err() != nil {
			return 0, false
		}
		rule, is := object.(*resourceapi.DeviceTaintRule)
		if !is || rule.DeletionTimestamp != nil {
			continue
		}
		at, expires, err := taints.Expiry(rule)
		if err != nil {
			wrong[rule.UID] = rule.Annotations[v1alpha1.ExpiresAnnotation]
			c.complain(rule, err)
			continue
		}
		switch {
		case !expires:
		case at.After(now):
			sooner(at.Sub(now))
		case c.remove(ctx, rule, at):
		default:
			sooner(retryAfter)
		}
	}
	c.wrong = wrong
	return next, any
}

// remove deletes a rule; false if that has to be tried again.
func (c *Controller) remove(ctx context.Context, rule *resourceapi.DeviceTaintRule, at time.Time) bool {
	err := c.options.Delete(ctx, rule.Name, rule.UID, rule.ResourceVersion)
	switch {
	case err == nil:
		c.options.Logger.Info("deleted an expired taint rule", "rule", rule.Name, "expired", at)
		return true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true // it is gone, or an event of the informer follows
	}
	c.options.Logger.Error(err, "cannot delete an expired taint rule", "rule", rule.Name, "expired", at)
	return false
}

// complain logs what is wrong with an annotation, unless the last pass did.
func (c *Controller) complain(rule *resourceapi.DeviceTaintRule, err error) {
	if text, said := c.wrong[rule.UID]; !said || text != rule.Annotations[v1alpha1.ExpiresAnnotation] {
		c.options.Logger.Error(err, "a taint rule will not expire")
	}
}
