package evictor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
)

// dispatch hands due pods to the workers, as fast as the limits allow.
func (c *Controller) dispatch(ctx context.Context) {
	for {
		due, wait := c.take(time.Now())
		switch {
		case due.write != nil:
			err := c.write(ctx, due.write)
			if ctx.Err() == nil {
				c.options.Metrics.journal(err)
			}
			if err != nil {
				c.options.Logger.Error(err, "Cannot persist the eviction journal; evictions paused, retrying")
				if !pauseFor(ctx, journalRetry) {
					return
				}
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

// journalRetry is the delay after a failed write of the journal.
const journalRetry = time.Second

// write persists the next evictions in the journal.
func (c *Controller) write(ctx context.Context, record *journalRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := c.options.Journal.Save(ctx, text); err != nil {
		return err
	}
	c.locked(func() {
		c.journaled, c.saved = make(map[types.UID]*podState, len(record.states)), time.Now()
		for _, of := range record.states {
			c.journaled[of.uid] = of
		}
	})
	return nil
}

// mustJournal reports whether a pod is to be written to the journal before its eviction. The
// mutex is held.
func (c *Controller) mustJournal(of *podState) bool {
	_, known := c.journaled[of.uid]
	return c.options.Journal != nil && !known
}

// pauseFor waits, whatever happens; false if ctx ended.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sleep waits for a change of the queue, at most for wait if that is positive; false if
// ctx ended.
func (c *Controller) sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(boundedSleep(wait))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c.wake:
	case <-timer.C:
	}
	return true
}

// maxSleep bounds a wait: timers stand still while a machine is suspended, but tolerations
// end by the wall clock.
const maxSleep = 10 * time.Second

func boundedSleep(wait time.Duration) time.Duration {
	if wait <= 0 || wait > maxSleep {
		return maxSleep
	}
	return wait
}

// An eviction is a pod for a worker, with the plan to carry out.
type eviction struct {
	of   *podState
	plan plan
	// due is when the pod could first be evicted.
	due time.Time
	// write is the record to persist first; then of is nil.
	write *journalRecord
}

// take returns the next pod to evict, or how long to wait; zero waits for a change. While
// decisions are pending it returns no pod, for the impact of a rule is not known yet.
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
	defer c.updateGauges() // the breaker can trip, or reset, without another event
	c.states.countDue(now)
	reports = append(reports, c.resetBreaker())
	for {
		first, any := c.states.queue.next()
		wait := time.Duration(0)
		if any {
			wait = first.Sub(now)
		}
		if len(c.breaker.tripped) > 0 && (!any || wait > breakerPeriod) {
			any, wait = true, breakerPeriod
		}
		if !any || wait > 0 {
			return eviction{write: c.ended(now)}, wait
		}
		due := c.states.take(now)
		open, over := c.breaker.allowed(due.planned(), due.pod.Namespace, &c.states.causes)
		reports = append(reports, c.trip(over))
		if e, wait, next := c.admit(due, open, now); !next {
			return e, wait
		}
	}
}

// admit returns the eviction of a taken pod for the allowed part of its plan. If it is not
// possible now it postpones the pod, and returns how long to wait, or next to try another.
func (c *Controller) admit(due *podState, open plan, now time.Time) (e eviction, wait time.Duration, next bool) {
	begin := open.begin(c.states.clock.time(due.since))
	switch {
	case !open.Evict():
		c.states.pause(due)
		return eviction{}, 0, true
	case begin.After(now) && len(open.Reasons) < len(due.planned().Reasons):
		c.states.pausePart(due, begin)
		return eviction{}, 0, true
	case begin.After(now):
		c.states.postpone(due, begin)
		return eviction{}, 0, true
	case c.mustJournal(due):
		write := c.record(due, now)
		c.states.postpone(due, due.at)
		return eviction{write: write}, 0, false
	}
	wait, global := c.limiter.delay(due.pod.Namespace, now)
	switch {
	case global:
		c.states.postpone(due, due.at)
		return eviction{}, wait, false
	case wait > 0:
		c.states.postpone(due, now.Add(wait))
		return eviction{}, 0, true
	}
	return eviction{of: due, plan: open, due: begin}, 0, false
}

// runWorker evicts pods until ctx ends.
func (c *Controller) runWorker(ctx context.Context) {
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

// evict carries out the plan for one pod, as far as it still applies.
func (c *Controller) evict(ctx context.Context, e eviction) {
	pod, open := c.remaining(e)
	if !open.Evict() {
		c.again(e)
		return
	}
	e.plan = open
	if !marked(pod) {
		c.event(pod, "Marking for deletion: "+e.plan.Reasons[0].String())
	}
	result, err := evictPod(ctx, c.options.Client, pod, conditionMessage(e.plan.Verdict), func() bool {
		_, open := c.remaining(e)
		return open.Evict()
	})
	switch {
	case err != nil:
		c.retry(e, result, err)
	case result == withdrawn:
		c.again(e)
	case result == gone:
		// An admission webhook or a stale API server can answer so, too: the pod is gone when
		// the watch says so.
		c.options.Metrics.evicted(e.plan.Verdict, string(gone))
		c.locked(func() {
			e.of.failures++
			c.states.postpone(e.of, time.Now().Add(max(goneDelay, retryDelay(int(e.of.failures)))))
		})
	default:
		c.options.Metrics.took(time.Since(e.due))
		c.locked(func() { c.states.evicted(e.of, e.plan.Verdict) })
	}
}

// remaining returns the pod of an eviction and what is left of its plan: the reasons that the
// last decision still has and the scope allows. None is left if the pod is not due any more.
func (c *Controller) remaining(e eviction) (*corev1.Pod, plan) {
	pod := c.options.Usage.Pod(e.of.pod.Namespace, e.of.pod.Name)
	if pod == nil || pod.UID != e.of.uid || exemptionOf(pod) != "" {
		return pod, plan{}
	}
	var open plan
	var since time.Time
	c.locked(func() {
		open, since = e.of.planned(), c.states.clock.time(e.of.since)
	})
	// The decision about the pod may still wait for those about others: what the view no longer has is no reason.
	now := DecidePod(pod, c.options.Usage, c.view, c.options.Settings, time.Now())
	open.Verdict = c.scope.Load().plan(pod, open.Only(func(r Reason) bool { return e.plan.has(r) && now.has(r) })).Verdict
	if open.begin(since).After(time.Now()) {
		return pod, plan{}
	}
	return pod, open
}

// again queues a taken pod whose plan does not apply any more. The event that changed the plan
// leads to a new decision.
func (c *Controller) again(e eviction) {
	c.locked(func() { c.states.postpone(e.of, time.Now().Add(retryDelay(0))) })
	c.dirty.add(e.of.pod)
}

// locked calls f with the mutex held, and then reports the deletions that f counted.
func (c *Controller) locked(f func()) {
	for _, d := range c.counted(f) {
		// Log and metric are the audit trail: there is one of each for each evicted pod, also
		// if the DELETE had no answer. The API server may drop events.
		c.options.Metrics.evicted(d.verdict, string(deleted))
		c.options.Logger.Info("Evicted pod", "pod", d.pod, "uid", d.uid, "verdict", d.verdict.Explain(time.Now()))
	}
}

func (c *Controller) counted(f func()) []deletion {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f()
	return c.states.takeDeletions()
}

func (c *Controller) retry(e eviction, result outcome, err error) {
	c.options.Metrics.evicted(e.plan.Verdict, "error")
	var delay time.Duration
	c.locked(func() {
		e.of.failures++
		delay = retryDelay(int(e.of.failures))
		if result == unanswered {
			delay = max(delay, unansweredDelay)
			c.states.unanswered(e.of, e.plan.Verdict, time.Now().Add(delay))
		} else {
			c.states.postpone(e.of, time.Now().Add(delay))
		}
	})
	c.options.Logger.Error(err, "Eviction failed, retrying", "pod", e.of.pod, "delay", delay.String())
}

const (
	// goneDelay is the least delay after an answer that the pod is gone, unansweredDelay that
	// after a DELETE without an answer: time for the watch to show what happened.
	goneDelay       = time.Second
	unansweredDelay = 5 * time.Second
)

// retryDelay doubles from 5 ms up to one minute.
func retryDelay(failures int) time.Duration {
	const least, most = 5 * time.Millisecond, time.Minute
	if failures > 14 {
		return most
	}
	return min(least<<max(failures-1, 0), most)
}

const (
	// disruptionReason is the reason of the condition DisruptionTarget of an evicted pod.
	disruptionReason = "DeletionByDRASteward"
	// eventReason is the reason of the events about pods.
	eventReason = "DeviceTaintEviction"
	// FieldManager owns the fields that the controller writes.
	FieldManager = "dra-steward-evictor"
)

// An outcome is the result of an eviction.
type outcome string

const (
	// deleted: the API server accepted the deletion.
	deleted outcome = "deleted"
	// gone: the pod does not exist any more, or another one has its name.
	gone outcome = "gone"
	// unanswered: there was an error, but the API server may have deleted the pod.
	unanswered outcome = "unanswered"
	// withdrawn: the plan no longer applies after the pod has the condition.
	withdrawn outcome = "withdrawn"
)

// evictPod makes two API calls, a status condition and a deletion, both with the UID of the
// pod, so that they do not affect another pod of the same name. The first call can take long, so
// the second follows only if still returns true.
func evictPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, message string, still func() bool) (outcome, error) {
	pods := client.CoreV1().Pods(pod.Namespace)
	if !marked(pod) {
		patch, err := markPatch(pod, message, time.Now())
		if err != nil {
			return "", err
		}
		_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, "status")
		if isGone(err) {
			return gone, nil
		}
		if err != nil {
			return "", fmt.Errorf("pod %s/%s: set condition %s: %w", pod.Namespace, pod.Name, corev1.DisruptionTarget, err)
		}
		if !still() {
			return withdrawn, nil
		}
	}
	err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if isGone(err) {
		return gone, nil
	}
	if err != nil {
		return outcomeOf(err), fmt.Errorf("pod %s/%s: delete: %w", pod.Namespace, pod.Name, err)
	}
	return deleted, nil
}

// outcomeOf returns unanswered if the API server may have carried out a failed request: it
// timed out, or the connection broke.
func outcomeOf(err error) outcome {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError || net.IsConnectionRefused(err) {
		return ""
	}
	return unanswered
}

// isGone reports whether the pod is gone. A conflict means another UID, which is the only
// precondition.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// marked reports whether the pod has our condition, from a previous attempt.
func marked(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == disruptionReason {
			return true
		}
	}
	return false
}

func markPatch(pod *corev1.Pod, message string, now time.Time) ([]byte, error) {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: disruptionReason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
}

// conditionMessage has the first reasons, in at most 1 KiB.
func conditionMessage(plan Verdict) string {
	const limit = 1024
	message := "DRA Steward: deleting due to NoExecute taint: "
	for i, reason := range plan.Reasons {
		text := reason.String()
		if i > 0 {
			text = "; " + text
		}
		if len(message)+len(text) > limit-len(" and 999 more") {
			return fmt.Sprintf("%s and %d more", message, len(plan.Reasons)-i)
		}
		message += text
	}
	return message
}

// Limits are the rates of evictions, as token buckets. They apply to one controller; a
// restart begins with full buckets.
type Limits struct {
	// PerSecond is the rate for the cluster, 20 if zero and at most 1000.
	PerSecond float64
	// PerNamespace is the rate for each namespace, unlimited if zero.
	PerNamespace float64
}

const (
	defaultPerSecond = 20
	mostPerSecond    = 1000
)

// Validate returns an error for rates outside 0 to 1000.
func (l Limits) Validate() error {
	for name, value := range map[string]float64{"PerSecond": l.PerSecond, "PerNamespace": l.PerNamespace} {
		if value < 0 || value > mostPerSecond {
			return fmt.Errorf("limit %s: %v: must be from 0 to %d", name, value, mostPerSecond)
		}
	}
	return nil
}

// limiter is a rate limiter that does not block.
type limiter struct {
	limits     Limits
	mutex      sync.Mutex
	all        *rate.Limiter
	namespaces map[string]*rate.Limiter
	// swept is when the full buckets of namespaces were last dropped.
	swept time.Time
}

// bucketsPeriod is how often full buckets of namespaces are dropped.
const bucketsPeriod = time.Minute

// sweep drops the buckets of namespaces that are full: a new one is full, too.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < bucketsPeriod {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.namespaces, func(_ string, own *rate.Limiter) bool { return own.TokensAt(now) >= float64(own.Burst()) })
}

func newLimiter(limits Limits) *limiter {
	if limits.PerSecond == 0 {
		limits.PerSecond = defaultPerSecond
	}
	return &limiter{limits: limits, all: bucket(limits.PerSecond), namespaces: map[string]*rate.Limiter{}}
}

// bucket has a burst of 1.5 seconds, at least one token.
func bucket(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond*1.5)))
}

// delay takes the tokens for a pod of a namespace and returns zero, or takes none and
// returns how long to wait: globally, or for pods of that namespace only.
func (l *limiter) delay(namespace string, now time.Time) (wait time.Duration, global bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := l.all.ReserveN(now, 1)
	if wait := all.DelayFrom(now); wait > 0 {
		all.CancelAt(now)
		return wait, true
	}
	if l.limits.PerNamespace == 0 {
		return 0, false
	}
	l.sweep(now)
	own := l.namespaces[namespace]
	if own == nil {
		own = bucket(l.limits.PerNamespace)
		l.namespaces[namespace] = own
	}
	its := own.ReserveN(now, 1)
	if wait := its.DelayFrom(now); wait > 0 {
		its.CancelAt(now)
		all.CancelAt(now)
		return wait, false
	}
	return 0, false
}
