package evictor

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// keepTime hands out the pods of the agenda when their time has come and the limits
// let them.
func (c *Controller) keepTime(ctx context.Context) {
	for {
		due, wait := c.take(time.Now())
		switch {
		case due.write != nil:
			if err := c.write(ctx, due.write); err != nil {
				c.options.Logger.Error(err, "Nobody is evicted until it can be written down, trying again")
				wait = journalRetry
				break
			}
			continue
		case due.of != nil:
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

// journalRetry is how long to wait after the journal could not be written.
const journalRetry = time.Second

// write has the journal know who is evicted next.
func (c *Controller) write(ctx context.Context, record *Record) error {
	if err := c.options.Journal.Save(ctx, *record); err != nil {
		return err
	}
	c.finish(func() {
		c.written = make(map[types.UID]struct{}, len(record.Next))
		for _, pod := range record.Next {
			c.written[pod.UID] = struct{}{}
		}
	})
	return nil
}

// unwritten says whether the journal has to know of a pod before it is evicted. The mutex
// is held.
func (c *Controller) unwritten(of *podCase) bool {
	_, known := c.written[of.uid]
	return c.options.Journal != nil && !known
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

// An eviction is a pod that a worker evicts now, and why.
type eviction struct {
	of   *podCase
	plan plan
	// due is since when the pod could have been evicted.
	due time.Time
	// write is what the journal has to know first. Then there is no pod yet.
	write *Record
}

// take returns the next pod to evict, or how long to wait; zero is until something
// changes. While pods wait to be decided about nobody is evicted: only then is it known
// how many a rule hits.
func (c *Controller) take(now time.Time) (eviction, time.Duration) {
	if !c.dirty.empty() {
		return eviction{}, 0
	}
	var reports []func()
	defer func() {
		for _, report := range reports {
			report()
		}
	}()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	reports = append(reports, c.mend())
	for {
		first, any := c.cases.agenda.next()
		wait := first.Sub(now)
		if len(c.breaker.broken) > 0 && (!any || wait > breakerPeriod) {
			any, wait = true, breakerPeriod
		}
		if !any {
			return eviction{}, 0
		}
		if wait > 0 {
			return eviction{}, wait
		}
		due := c.cases.take(now)
		open, over := c.breaker.open(due.planned(), &c.cases.ledger)
		reports = append(reports, c.breakers(over))
		if e, wait, next := c.admit(due, open, now); !next {
			return e, wait
		}
	}
}

// admit says whether a pod that was taken is evicted now, for what is open of its plan.
// If not it puts the pod back and says how long to wait, or that it may be another's turn.
func (c *Controller) admit(due *podCase, open plan, now time.Time) (e eviction, wait time.Duration, next bool) {
	begin := open.begin(c.cases.clock.time(due.since))
	switch {
	case !open.Evict():
		c.cases.pause(due)
		return eviction{}, 0, true
	case begin.After(now):
		c.cases.postpone(due, begin)
		return eviction{}, 0, true
	case c.unwritten(due):
		write := c.record(due, now)
		c.cases.postpone(due, due.at)
		return eviction{write: write}, 0, false
	}
	wait, everybody := c.limiter.delay(due.pod.Namespace, now)
	switch {
	case everybody:
		c.cases.postpone(due, due.at)
		return eviction{}, wait, false
	case wait > 0:
		c.cases.postpone(due, now.Add(wait))
		return eviction{}, 0, true
	}
	return eviction{of: due, plan: open, due: begin}, 0, false
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
func (c *Controller) evict(ctx context.Context, e eviction) {
	pod := c.options.Usage.Pod(e.of.pod.Namespace, e.of.pod.Name)
	if pod == nil || pod.UID != e.of.uid || !c.outlook.Load().plan(pod, e.plan.Verdict).Evict() || Spare(pod) != "" {
		// It is decided anew with the event that brought this, or was already.
		c.finish(func() { c.cases.postpone(e.of, time.Now().Add(retryDelay(0))) })
		c.dirty.add(e.of.pod)
		return
	}
	if !marked(pod) {
		c.event(pod, "Marking for deletion: "+e.plan.Reasons[0].String())
	}
	result, err := evictPod(ctx, c.options.Client, pod, conditionMessage(e.plan.Verdict), time.Now())
	switch {
	case err != nil:
		c.retry(e, result, err)
	case result == gone:
		c.options.Metrics.evicted(e.plan.Verdict, string(gone))
		c.finish(func() { c.cases.over(e.of) })
	default:
		now := time.Now()
		c.options.Metrics.evicted(e.plan.Verdict, string(deleted))
		c.options.Metrics.took(now.Sub(e.due))
		c.options.Logger.Info("Evicted pod", "pod", e.of.pod, "node", pod.Spec.NodeName, "verdict", e.plan.Explain(now))
		c.finish(func() { c.cases.evicted(e.of, e.plan.Verdict) })
	}
}

func (c *Controller) finish(f func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f()
}

func (c *Controller) retry(e eviction, result outcome, err error) {
	c.options.Metrics.evicted(e.plan.Verdict, "error")
	var delay time.Duration
	c.finish(func() {
		e.of.failures++
		delay = retryDelay(int(e.of.failures))
		if result == unanswered {
			c.cases.unanswered(e.of, e.plan.Verdict, time.Now().Add(delay))
		} else {
			c.cases.postpone(e.of, time.Now().Add(delay))
		}
	})
	c.options.Logger.Error(err, "Evicting failed, trying again", "pod", e.of.pod, "in", delay.String())
}

// retryDelay doubles from 5 ms up to a minute.
func retryDelay(failures int) time.Duration {
	const least, most = 5 * time.Millisecond, time.Minute
	if failures > 14 {
		return most
	}
	return min(least<<max(failures-1, 0), most)
}
