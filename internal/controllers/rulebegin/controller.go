// Package rulebegin records in the status of each DeviceTaintRule when it began to evict what it
// evicts now. A replica of the webhook that starts reads that time, for the guard's sum over a
// window.
package rulebegin

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// FieldManager is the name under which the controller writes.
const FieldManager = "dra-steward-rule-begin"

// Options of a controller.
type Options struct {
	// Rules has *resourceapi.DeviceTaintRule, and is run by the caller.
	Rules cache.SharedIndexInformer
	// Write applies a condition to the status of a rule that is still the one with its UID.
	Write  func(ctx context.Context, rule *resourceapi.DeviceTaintRule, condition metav1.Condition) error
	Logger logr.Logger
}

// A Controller records when each DeviceTaintRule began to evict.
type Controller struct {
	Options
	queue workqueue.TypedRateLimitingInterface[string]
	// seen are the rules as they were reconciled last, by name.
	seen map[string]*resourceapi.DeviceTaintRule
}

// New prepares a controller.
func New(o Options) *Controller {
	return &Controller{Options: o, seen: map[string]*resourceapi.DeviceTaintRule{},
		queue: reconcile.Queue[string](100*time.Millisecond, time.Minute)}
}

// Run reconciles until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	handle, err := c.Rules.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueue, UpdateFunc: func(_, rule any) { c.enqueue(rule) }, DeleteFunc: c.enqueue})
	if err != nil {
		return err
	}
	defer func() { _ = c.Rules.RemoveEventHandler(handle) }()
	reconcile.Loop(ctx, c.queue, c.reconcile, func(err error, key string) {
		c.Logger.Error(err, "cannot record when a taint rule began to evict", "rule", key)
	})
	return nil
}

func (c *Controller) enqueue(rule any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(rule); err == nil {
		c.queue.Add(key)
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	object, exists, err := c.Rules.GetStore().GetByKey(key)
	if err != nil {
		return err
	}
	if !exists {
		delete(c.seen, key)
		return nil
	}
	rule, is := object.(*resourceapi.DeviceTaintRule)
	if !is {
		return fmt.Errorf("%s: unexpected %T", key, object)
	}
	if condition := Decide(c.seen[key], rule, time.Now()); condition != nil {
		err := c.Write(ctx, rule, *condition)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it is gone or another one, or the API server has no status of rules
		}
		return err // the written rule is reconciled next, and compared with the same one
	}
	c.seen[key] = rule
	return nil
}

// Reasons of the condition.
const (
	reasonEvicts   = "EffectNoExecute"
	reasonEvictsNo = "OtherEffect"
)

// Decide returns the condition that the status of a rule lacks, nil if it lacks none. previous is
// the rule as this process saw it before, nil if it did not. A rule that was never changed needs
// no condition: it began when it was created. A rule that was changed more than once since begins
// now, because a change in between may have stopped it.
func Decide(previous, rule *resourceapi.DeviceTaintRule, now time.Time) *metav1.Condition {
	if rule.Generation <= 1 {
		return nil
	}
	written := apimeta.FindStatusCondition(rule.Status.Conditions, guard.BeganCondition)
	if !guard.Widens(nil, rule, now) {
		if written == nil || written.Status == metav1.ConditionFalse {
			return nil
		}
		return &metav1.Condition{Type: guard.BeganCondition, Status: metav1.ConditionFalse, Reason: reasonEvictsNo,
			Message: "The rule evicts no pods.", ObservedGeneration: rule.Generation, LastTransitionTime: metav1.NewTime(now)}
	}
	if written != nil && written.Status == metav1.ConditionTrue && written.ObservedGeneration == rule.Generation {
		return nil
	}
	since := now
	if previous != nil && previous.UID == rule.UID && previous.Generation+1 == rule.Generation && !guard.Widens(previous, rule, now) {
		if began, known := guard.Began(previous); known {
			since = began
		}
	}
	return &metav1.Condition{Type: guard.BeganCondition, Status: metav1.ConditionTrue, Reason: reasonEvicts,
		Message: "The rule evicts pods from these devices since the time of this condition.", ObservedGeneration: rule.Generation, LastTransitionTime: metav1.NewTime(since)}
}
