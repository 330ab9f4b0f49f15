package drain

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// step decides the next step of a drain and takes it: rules, then the status, then the
// evictions that the status lists. It returns when to come back; zero is when something
// changes.
func (c *Controller) step(ctx context.Context, name string) (wake time.Duration, err error) {
	if err := c.orphans(ctx, name); err != nil {
		return 0, err
	}
	now := time.Now()
	d, decision := c.decide(name, now)
	if d == nil {
		return 0, nil
	}
	defer c.locked(func() { delete(c.asking, name) })
	if err := c.cordon(ctx, decision, now); err != nil {
		return window, nil // why is in the status, as the next step finds
	}
	next := period
	if !decision.Wake.IsZero() {
		next = max(decision.Wake.Sub(now), time.Millisecond)
	} else if decision.Status.CompletionTime != nil {
		next = 0
	}
	if len(decision.Create)+len(decision.Correct)+len(decision.Delete) > 0 {
		next = window
	}
	if equality.Semantic.DeepEqual(d.Status, decision.Status) {
		return next, nil
	}
	if quiet := c.lastWrite(name).Add(calm).Sub(now); quiet > 0 && !urgent(d.Status, decision.Status) {
		return orSooner(next, quiet), nil
	}
	if err := c.write(ctx, d, decision.Status, now); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return window, nil // somebody was faster: decide again
		}
		return 0, err
	}
	c.evictAll(ctx, name, decision.Evict)
	if len(decision.Evict) > 0 {
		next = time.Millisecond
	}
	return next, nil
}

// decide returns a drain and the next step, or nil if the drain is gone. From now on no
// other drain evicts the pods of that step.
func (c *Controller) decide(name string, now time.Time) (*v1alpha1.DeviceDrain, Decision) {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	d := c.newest(name)
	if d == nil || d.DeletionTimestamp != nil {
		c.forget(name)
		return nil, Decision{}
	}
	c.answers.clean(c.options.Usage.Pod, now)
	decision := Decide(c.gather(d, now))
	c.activate(name, decision.Status.CompletionTime == nil)
	c.options.Metrics.state(name, decision.Status)
	if len(decision.Evict) > 0 {
		c.asking[name] = decision.Evict
	}
	return d, decision
}

// locked calls f while no step is decided.
func (c *Controller) locked(f func()) {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	f()
}

func (c *Controller) lastWrite(name string) (at time.Time) {
	c.locked(func() { at = c.wrote[name] })
	return at
}

func orSooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// write stores a status. The drain must be the one that was decided about.
func (c *Controller) write(ctx context.Context, d *v1alpha1.DeviceDrain, status v1alpha1.DeviceDrainStatus, now time.Time) error {
	before := d.Status
	d = d.DeepCopy()
	d.Status = status
	written, err := c.options.Drains.UpdateStatus(ctx, d)
	c.options.Metrics.wrote(err)
	if err != nil {
		return err
	}
	c.locked(func() {
		c.written[d.Name], c.wrote[d.Name] = written, now
		delete(c.answers.outcomes, d.Name) // the status has them
		c.announce(d, before.Conditions, status.Conditions, now)
	})
	return nil
}

// urgent reports whether something other than counts and messages differs.
func urgent(before, after v1alpha1.DeviceDrainStatus) bool {
	for _, condition := range after.Conditions {
		if was := find(before.Conditions, condition.Type); was.Status != condition.Status || was.Reason != condition.Reason {
			return true
		}
	}
	return before.ObservedGeneration != after.ObservedGeneration || len(before.Devices) != len(after.Devices) ||
		len(before.Evicting) > 0 || len(after.Evicting) > 0 || (before.CompletionTime == nil) != (after.CompletionTime == nil) ||
		!equality.Semantic.DeepEqual(before.Attempts, after.Attempts)
}

func find(conditions []metav1.Condition, kind string) (found metav1.Condition) {
	for _, condition := range conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return found
}

// cordon writes the rules.
func (c *Controller) cordon(ctx context.Context, decision Decision, now time.Time) error {
	var err error
	for _, rule := range decision.Create {
		if err == nil {
			err = named(rule, "create", c.rules.create(ctx, rule))
		}
	}
	for _, rule := range decision.Correct {
		if err == nil {
			err = named(rule, "correct", c.rules.correct(ctx, rule))
		}
	}
	for _, rule := range decision.Delete {
		if err == nil {
			err = named(rule, "delete", c.rules.remove(ctx, rule))
		}
	}
	if err == nil {
		return nil
	}
	c.locked(func() {
		c.cannot, c.until = err.Error(), now.Add(period)
		if errors.Is(err, errNotServed) {
			c.until = now.Add(6 * period)
		}
	})
	return err
}
