package evictor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

const (
	// DisruptionReason is the reason of the condition DisruptionTarget that an evicted
	// pod gets.
	DisruptionReason = "DeletionByDRASteward"
	// EventReason is the reason of the events about pods.
	EventReason = "DeviceTaintEviction"
	// FieldManager owns the fields that the controller writes.
	FieldManager = "dra-steward-evictor"
)

// An outcome says how an eviction ended without an error.
type outcome string

const (
	// deleted: the API server accepted the deletion.
	deleted outcome = "deleted"
	// gone: the pod does not exist any more, or there is another one of its name.
	gone outcome = "gone"
	// unanswered is beside an error: the API server may have deleted the pod.
	unanswered outcome = "unanswered"
)

// evictPod takes two calls: a condition into the status and the deletion, both for the
// UID that was decided about and no other pod of the name.
func evictPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, message string, now time.Time) (outcome, error) {
	pods := client.CoreV1().Pods(pod.Namespace)
	if !marked(pod) {
		patch, err := markPatch(pod, message, now)
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
	}
	err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if isGone(err) {
		return gone, nil
	}
	if err != nil {
		return ended(err), fmt.Errorf("pod %s/%s: delete: %w", pod.Namespace, pod.Name, err)
	}
	return deleted, nil
}

// ended is unanswered if the request of an error may have been carried out nevertheless:
// it timed out, or the connection broke.
func ended(err error) outcome {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError || net.IsConnectionRefused(err) {
		return ""
	}
	return unanswered
}

// isGone says whether the pod of the UID is gone: a conflict is one about the UID,
// since there is no other precondition.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// marked says whether the pod has our condition, from an attempt before.
func marked(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == DisruptionReason {
			return true
		}
	}
	return false
}

func markPatch(pod *corev1.Pod, message string, now time.Time) ([]byte, error) {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: DisruptionReason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
}

// conditionMessage fits into a condition: the first reasons, at most 1 KiB.
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

// Limits are how many pods are evicted per second, as token buckets. They hold for one
// controller; a restart begins with full buckets.
type Limits struct {
	// PerSecond is for the whole cluster, 20 if zero. It is at most 1000.
	PerSecond float64
	// PerNamespace is for each namespace, without a limit of its own if zero.
	PerNamespace float64
}

const (
	defaultPerSecond = 20
	mostPerSecond    = 1000
)

// Validate returns an error for rates below zero or above 1000.
func (l Limits) Validate() error {
	for name, value := range map[string]float64{"PerSecond": l.PerSecond, "PerNamespace": l.PerNamespace} {
		if value < 0 || value > mostPerSecond {
			return fmt.Errorf("limit %s is %v: must be from 0 to %d", name, value, mostPerSecond)
		}
	}
	return nil
}

// limiter says when a pod may be evicted, without waiting.
type limiter struct {
	limits     Limits
	mutex      sync.Mutex
	all        *rate.Limiter
	namespaces map[string]*rate.Limiter
}

func newLimiter(limits Limits) *limiter {
	if limits.PerSecond == 0 {
		limits.PerSecond = defaultPerSecond
	}
	return &limiter{limits: limits, all: bucket(limits.PerSecond), namespaces: map[string]*rate.Limiter{}}
}

// bucket holds the tokens of a second and a half, at least one.
func bucket(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond*1.5)))
}

// delay takes the tokens for a pod of namespace and returns zero, or takes none and
// returns how long there are none, for everybody or in that namespace alone.
func (l *limiter) delay(namespace string, now time.Time) (wait time.Duration, everybody bool) {
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
