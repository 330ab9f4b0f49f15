package devicedrain

import (
	"context"
	"errors"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// step decides the next step of a drain and takes it: rules, then the status, then the
// EvictionRequests and evictions that the status lists. It returns when to come back; zero is when something
// changes.
func (c *Controller) step(ctx context.Context, name string) (wake time.Duration, err error) {
	if err := c.orphans(ctx, name); err != nil {
		return 0, err
	}
	c.readVersion()
	requests := c.readRequests(ctx, name)
	stranded, again := c.foresee(ctx, name, time.Now())
	find, err := c.find(ctx, name)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	d, decision := c.decide(name, find, requests, stranded, now)
	if d == nil {
		return 0, nil
	}
	defer c.locked(func() { delete(c.asking, name) })
	if err := c.cordon(ctx, decision, now); err != nil {
		return window, nil // why is in the status, as the next step finds
	}
	next := orSooner(dueIn(&decision, now), again)
	if err := c.uncordon(ctx, decision); err != nil {
		c.options.Logger.Error(err, "A cordon stays in force; retrying", "drain", name, "retryAfter", period)
		next = period
	}
	if equality.Semantic.DeepEqual(d.Status, decision.Status) {
		c.writeRequests(ctx, d, decision)
		return next, nil
	}
	if quiet := quiet(d.Status, decision, time.Since(c.lastWrite(name)), now); quiet > 0 {
		return orSooner(next, quiet), nil
	}
	if err := c.write(ctx, d, decision.Status, now); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return window, nil // another client was faster: decide again
		}
		return 0, err
	}
	c.fellBack(name, decision.FellBack)
	c.writeRequests(ctx, d, decision)
	if len(decision.Evict) > 0 {
		c.evictAll(ctx, name, decision.Evict)
		next = orSooner(next, pause)
	}
	return next, nil
}

// decide returns a drain and the next step, or nil if the drain is gone. From now on no
// other drain evicts the pods of that step.
func (c *Controller) decide(name string, find drain.Find, requests drain.Requests, stranded *guard.Stranded, now time.Time) (*v1alpha1.DeviceDrain, drain.Decision) {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	d := c.newest(name)
	if d == nil || d.DeletionTimestamp != nil {
		c.forget(name)
		return nil, drain.Decision{}
	}
	c.answers.clean(c.options.Usage.Pod, now)
	in := c.gather(d, find, now)
	in.Requests, in.Version, in.Stranded = requests, c.version, stranded
	in.Requests.Refused = c.answers.unasked
	decision := drain.Decide(in)
	c.activate(name, decision.Status.CompletionTime == nil)
	c.options.Metrics.state(name, decision.Status)
	if asks := slices.Concat(decision.Evict, decision.Ask); len(asks) > 0 {
		c.asking[name] = asks
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

// dueIn is when to come back though nothing changes; zero is never.
func dueIn(d *drain.Decision, now time.Time) time.Duration {
	switch {
	case len(d.Create)+len(d.Correct)+len(d.Delete) > 0:
		return window
	case !d.Wake.IsZero():
		return max(d.Wake.Sub(now), time.Millisecond)
	case len(d.Withdraw) > 0:
		return period
	case d.Status.CompletionTime != nil:
		return 0
	}
	return period
}

// quiet is how long a status is not written yet, since it was written a while ago: at least
// for pause, and for calm if only counts and messages differ. It leaves the next write to an
// eviction that is due within pause, so that progress does not delay evictions.
func quiet(before v1alpha1.DeviceDrainStatus, d drain.Decision, since time.Duration, now time.Time) time.Duration {
	due := d.Wake.Sub(now)
	switch {
	case since < pause:
		return pause - since
	case len(d.Evict)+len(d.Ask) > 0 || d.Status.CompletionTime != nil:
		return 0
	case since < calm && !urgent(before, d.Status):
		return calm - since
	case since < calm+pause && due > 0 && due < pause:
		return due
	}
	return 0
}

func orSooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
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
		c.written[d.Name], c.wrote[d.Name] = written, time.Now()
		delete(c.answers.outcomes, d.Name) // the status has them
		c.announce(d, before.Conditions, status.Conditions, now)
	})
	return nil
}

// urgent reports whether something other than counts and messages differs.
func urgent(before, after v1alpha1.DeviceDrainStatus) bool {
	for _, is := range after.Conditions {
		if was := condition.Find(before.Conditions, is.Type); was.Status != is.Status || was.Reason != is.Reason {
			return true
		}
	}
	return before.ObservedGeneration != after.ObservedGeneration || len(before.Devices) != len(after.Devices) ||
		len(after.Evicting) > 0 || (before.CompletionTime == nil) != (after.CompletionTime == nil) ||
		!equality.Semantic.DeepEqual(before.Attempts, after.Attempts)
}

// cordon creates and corrects the next rules, at most maxWrites.
func (c *Controller) cordon(ctx context.Context, decision drain.Decision, now time.Time) error {
	err := writeRules(ctx, "create", decision.Create, maxWrites, c.rules.create)
	if err == nil {
		err = writeRules(ctx, "correct", decision.Correct, maxWrites-len(decision.Create), c.rules.correct)
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

// uncordon deletes rules, but only when no other is left to write: one rule can replace others. A rule that is not
// deleted keeps devices from being allocated, and nothing else waits for it.
func (c *Controller) uncordon(ctx context.Context, decision drain.Decision) error {
	return writeRules(ctx, "delete", decision.Delete, maxWrites-len(decision.Create)-len(decision.Correct), c.rules.remove)
}

// writeRules writes rules, at most so many, until one is refused.
func writeRules(ctx context.Context, verb string, rules []*resourceapi.DeviceTaintRule, most int, write func(context.Context, *resourceapi.DeviceTaintRule) error) error {
	for _, rule := range rules[:max(0, min(len(rules), most))] {
		if err := write(ctx, rule); err != nil {
			return named(rule, verb, err)
		}
	}
	return nil
}
