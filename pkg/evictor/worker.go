package evictor

import (
	"context"
	"time"
)

// keepTime hands out the pods of the agenda when their time has come and the limits
// let them.
func (c *Controller) keepTime(ctx context.Context) {
	for {
		due, wait := c.take(time.Now())
		if due != nil {
			select {
			case c.work <- due:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !c.sleep(ctx, wait) {
			return
		}
	}
}

// sleep waits for a change of the agenda, at most for wait if that is positive; false
// if ctx ended.
func (c *Controller) sleep(ctx context.Context, wait time.Duration) bool {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.wake:
	case <-over:
	}
	return true
}

// take returns the next pod to evict, or how long to wait; zero is until something
// changes.
func (c *Controller) take(now time.Time) (*podCase, time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for {
		first, any := c.cases.agenda.next()
		if !any {
			return nil, 0
		}
		if wait := first.Sub(now); wait > 0 {
			return nil, wait
		}
		due := c.cases.take(now)
		wait := c.limiter.delay(due.pod.Namespace, now)
		if wait == 0 {
			return due, 0
		}
		c.cases.postpone(due, now.Add(wait))
	}
}

// evictAll is one worker.
func (c *Controller) evictAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case due := <-c.work:
			c.evict(ctx, due)
			c.changed()
		}
	}
}

// evict carries out what was planned about one pod, if that still holds.
func (c *Controller) evict(ctx context.Context, due *podCase) {
	c.mutex.Lock()
	plan, since := due.plan, due.due()
	c.mutex.Unlock()
	pod := c.index.pod(due.pod)
	if pod == nil || pod.UID != due.uid || !plan.Evict() || !c.options.Mode.plan(pod, plan, c.options.ActSince).Evict() || Spare(pod) != "" {
		// It is decided anew with the event that brought this, or was already.
		c.finish(func() { c.cases.postpone(due, time.Now().Add(retryDelay(0))) })
		c.dirty.Add(due.pod)
		return
	}
	if !marked(pod) {
		c.event(pod, "Marking for deletion: "+plan.Reasons[0].String())
	}
	result, err := evictPod(ctx, c.options.Client, pod, conditionMessage(plan), time.Now())
	switch {
	case err != nil:
		c.retry(due, err)
	case result == gone:
		c.options.Metrics.failed(string(gone))
		c.finish(func() { c.cases.left(due) })
		c.dirty.Add(due.pod)
	default:
		now := time.Now()
		c.options.Metrics.evicted(plan, now.Sub(since))
		c.options.Logger.Info("Evicted pod", "pod", due.pod, "node", pod.Spec.NodeName, "verdict", plan.Explain(now))
		c.finish(func() { c.cases.evicted(due, plan) })
	}
}

func (c *Controller) finish(f func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f()
}

func (c *Controller) retry(due *podCase, err error) {
	c.options.Metrics.failed("error")
	var delay time.Duration
	c.finish(func() {
		due.failures++
		delay = retryDelay(due.failures)
		c.cases.postpone(due, time.Now().Add(delay))
	})
	c.options.Logger.Error(err, "Evicting failed, trying again", "pod", due.pod, "in", delay.String())
}

// retryDelay doubles from 5 ms up to a minute.
func retryDelay(failures int) time.Duration {
	const least, most = 5 * time.Millisecond, time.Minute
	if failures > 14 {
		return most
	}
	return min(least<<max(failures-1, 0), most)
}
