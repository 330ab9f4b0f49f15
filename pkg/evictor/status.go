package evictor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	ac "k8s.io/client-go/applyconfigurations/resource/v1"
	acalpha "k8s.io/client-go/applyconfigurations/resource/v1alpha3"
	acbeta "k8s.io/client-go/applyconfigurations/resource/v1beta2"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
)

const (
	// statusPeriod is the least time between two writes of the status of a rule, except
	// for the first after a change of its spec.
	statusPeriod = 10 * time.Second
	// quietPeriod is how long a rule has no pending pods before it reports that eviction is
	// not in progress: the scheduler may be placing a pod.
	quietPeriod = 5 * time.Second
)

// statuses reconciles the conditions of rules. The mutex guards the map and is not held
// during API calls.
type statuses struct {
	c    *Controller
	wake chan struct{}
	// none is the number of rules with the effect None; published is incremented by each
	// change of the set of published devices.
	none      atomic.Int32
	published atomic.Uint64

	mutex sync.Mutex
	rules map[string]*ruleState
}

// ruleState is the state of reconciling one rule.
type ruleState struct {
	uid  types.UID
	none bool
	// next is when to reconcile the rule, last when its status was written.
	next, last time.Time
	// quiet is when it last ran out of pending pods.
	quiet time.Time
	// wrote are the last written conditions EvictionInProgress, at most [mostWritten].
	wrote []metav1.Condition
	// failures is the number of failed writes in a row, failure the last error.
	failures int
	failure  string
	// queued is the spec, without the time of the taint, for which all affected pods
	// have been queued.
	queued *resourceapi.DeviceTaintRuleSpec
	// selects is the number of published devices that it selects, as of published.
	selects   int
	published uint64
}

// mostWritten is the number of written conditions that are remembered per rule. A watch that was
// interrupted delivers one write after the other, also those that had no answer.
const mostWritten = 16

// remember adds a condition to the written ones.
func (r *ruleState) remember(c metav1.Condition) {
	if slices.ContainsFunc(r.wrote, func(w metav1.Condition) bool { return sameCondition(&w, &c) }) {
		return
	}
	// A new list: observeRule reads the one before without the mutex.
	r.wrote = append(slices.Clone(r.wrote[max(0, len(r.wrote)+1-mostWritten):]), c)
}

func newStatuses(c *Controller) *statuses {
	s := &statuses{c: c, wake: make(chan struct{}, 1), rules: map[string]*ruleState{}}
	s.published.Store(1)
	return s
}

// previewing reports whether any rule has the effect None.
func (s *statuses) previewing() bool { return s.none.Load() > 0 }

// ruleChanged queues a new or changed rule, and drops a deleted one.
func (s *statuses) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	if before != nil && (after == nil || after.UID != before.UID) {
		s.forget(before)
	}
	if after == nil || after.Name == taints.ProbeName {
		return
	}
	s.mutex.Lock()
	r := s.rules[after.Name]
	if r == nil {
		r = &ruleState{uid: after.UID}
		s.rules[after.Name] = r
	}
	if none := after.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNone; none != r.none {
		r.none, r.queued = none, nil
		s.none.Add(map[bool]int32{true: 1, false: -1}[none])
	}
	wrote := r.wrote
	if before == nil || before.Generation != after.Generation || r.next.IsZero() {
		r.quiet, r.next = time.Time{}, time.Now()
	}
	s.mutex.Unlock()
	s.c.locked(func() { s.c.states.causes.restore(after.UID, evictedSoFar(s.c.options.Mode, after)) })
	if s.c.observeRule(before, after, wrote) {
		s.c.learn(func(o *inTreeState) { o.seen(fromRules) })
	}
	s.wakeUp()
}

func (s *statuses) forget(rule *resourceapi.DeviceTaintRule) {
	s.c.options.Metrics.forget(rule.Name)
	s.mutex.Lock()
	if r := s.rules[rule.Name]; r != nil {
		if r.none {
			s.none.Add(-1)
		}
		delete(s.rules, rule.Name)
	}
	s.mutex.Unlock()
	s.c.locked(func() { s.c.states.causes.forget(rule.UID) })
}

func (s *statuses) wakeUp() { reconcile.Wake(s.wake) }

// requeueAll queues all rules for as soon as possible.
func (s *statuses) requeueAll() { s.requeue(func(*ruleState) bool { return true }) }

// requeueRule queues a rule for as soon as possible.
func (s *statuses) requeueRule(uid types.UID) {
	s.requeue(func(r *ruleState) bool { return r.uid == uid })
}

func (s *statuses) requeue(which func(*ruleState) bool) {
	now := time.Now()
	s.mutex.Lock()
	for _, r := range s.rules {
		at := r.last.Add(statusPeriod)
		if now.After(at) {
			at = now
		}
		if which(r) && at.Before(r.next) {
			r.next = at
		}
	}
	s.mutex.Unlock()
	s.wakeUp()
}

func (s *statuses) run(ctx context.Context) {
	for {
		names, wait := s.due(time.Now())
		for _, name := range names {
			s.reconcile(ctx, name)
		}
		if len(names) > 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// due takes the rules to reconcile now, or returns how long to wait.
func (s *statuses) due(now time.Time) (names []string, wait time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	wait = statusPeriod
	for name, r := range s.rules {
		if left := r.next.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		names = append(names, name)
		r.next = now.Add(statusPeriod)
	}
	return names, wait
}

// requeueAfter queues a rule for a time.
func (s *statuses) requeueAfter(name string, after time.Duration) {
	s.change(name, func(r *ruleState) { r.next = time.Now().Add(after) })
}

func (s *statuses) change(name string, f func(*ruleState)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if r := s.rules[name]; r != nil {
		f(r)
	}
}

// reconcile writes the conditions of a rule if they have changed.
func (s *statuses) reconcile(ctx context.Context, name string) {
	object, exists, err := s.c.options.Rules.GetStore().GetByKey(name)
	rule, ok := object.(*resourceapi.DeviceTaintRule)
	scope := s.c.scope.Load()
	kind := scope.shares.condition()
	if err != nil || !exists || !ok || kind == "" && !scope.rulesInTree {
		return
	}
	var conditions []metav1.Condition
	if kind != "" {
		report, wait := s.report(rule)
		if wait > 0 {
			s.requeueAfter(name, wait)
			return
		}
		conditions = conditionsOf(kind, rule, report, metav1.Now().Rfc3339Copy())
	}
	if !outdated(rule, conditions) {
		return
	}
	s.change(name, func(r *ruleState) {
		r.last = time.Now()
		if kind == resourceapi.DeviceTaintConditionEvictionInProgress {
			r.remember(conditions[0])
		}
	})
	err = writeConditions(ctx, s.c.options.Client, rule, conditions)
	s.c.options.Metrics.wroteStatus(err)
	s.written(name, err)
}

// report returns what is known of a rule, or how long to wait until it can be reported.
func (s *statuses) report(rule *resourceapi.DeviceTaintRule) (report ruleReport, wait time.Duration) {
	decided := rule.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || s.decided(rule)
	report = s.c.reportOn(rule.UID)
	switch {
	case !decided && report.Pending == 0:
		return report, decidedPeriod
	case rule.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute && !s.reportable(rule.Name, report.Pending > 0, time.Now()):
		return report, time.Second
	case rule.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNone:
		report.preview.Published = s.selects(rule)
		report.preview.Allocated = s.c.options.Usage.Count(rule.Spec.DeviceSelector)
	}
	return report, 0
}

// written notes how a write of the status of a rule ended. A failed one is repeated, each time
// later, and its error is logged when it is another one than before.
func (s *statuses) written(name string, err error) {
	another := false
	s.change(name, func(r *ruleState) {
		if err == nil {
			r.failures, r.failure = 0, ""
			return
		}
		another = r.failure != err.Error()
		r.failures, r.failure = r.failures+1, err.Error()
		r.next = time.Now().Add(statusRetry(r.failures))
	})
	if another {
		s.c.options.Logger.Error(err, "Cannot write the status of a DeviceTaintRule, retrying", "rule", name)
	}
}

// statusRetry doubles from one second up to one minute.
func statusRetry(failures int) time.Duration { return max(time.Second, retryDelay(failures+7)) }

// reportable reports whether the counts of a rule are stable: pods are pending, or none
// has been for [quietPeriod].
func (s *statuses) reportable(name string, pending bool, now time.Time) (stable bool) {
	s.change(name, func(r *ruleState) {
		switch {
		case pending:
			r.quiet, stable = time.Time{}, true
		case r.quiet.IsZero():
			r.quiet = now
		default:
			stable = now.Sub(r.quiet) >= quietPeriod
		}
	})
	return stable
}

// decidedPeriod is how often to check whether all pods of a rule have been decided about.
const decidedPeriod = 50 * time.Millisecond

// decided reports whether all pods that a rule affects have been decided about. It queues them
// once for each selector and taint: where a rule takes the place of another one with the same
// taint, no device changes.
func (s *statuses) decided(rule *resourceapi.DeviceTaintRule) bool {
	merged := s.c.options.Tracker.Snapshot().Rule(rule.Name)
	if merged == nil || merged.UID != rule.UID || merged.Generation != rule.Generation {
		return false
	}
	spec, again := rule.Spec, false
	spec.Taint.TimeAdded = nil
	s.change(rule.Name, func(r *ruleState) {
		if r.queued == nil || !equality.Semantic.DeepEqual(*r.queued, spec) {
			r.queued, r.published, again = &spec, 0, true
		}
	})
	if again {
		s.c.dirty.add(s.affected(rule)...)
	}
	return s.c.dirty.empty()
}

// affected are the pods that a rule evicts or previews.
func (s *statuses) affected(rule *resourceapi.DeviceTaintRule) []types.NamespacedName {
	var keep func(*resourceapi.DeviceRequestAllocationResult) bool
	if rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNone {
		keep = func(r *resourceapi.DeviceRequestAllocationResult) bool {
			return counts(rule.Spec.Taint, r.Tolerations, s.c.options.Settings)
		}
	}
	return s.c.options.Usage.Concerned(rule.Spec.DeviceSelector, keep)
}

// selects returns the number of published devices that a rule selects, from a cache.
func (s *statuses) selects(rule *resourceapi.DeviceTaintRule) (n int) {
	as := s.published.Load()
	known := false
	s.change(rule.Name, func(r *ruleState) {
		if known = r.published == as; known {
			n = r.selects
		}
	})
	if known {
		return n
	}
	n = s.c.selected(rule)
	s.change(rule.Name, func(r *ruleState) { r.selects, r.published = n, as })
	return n
}

// The reasons of the condition of a rule, as in Kubernetes 1.37.
const (
	reasonPending    = "PodsPendingEviction"
	reasonCompleted  = "Completed"
	reasonNotStarted = "NotStarted"
	reasonNoEffect   = "NoEffect"
	reasonOther      = "OtherEffect"
)

// A preview is the impact of a rule if its effect were NoExecute.
type preview struct {
	// Published are the devices in slices that the rule selects.
	Published int
	// Allocated are those that claims hold, published or not.
	Allocated int
	// Pods are those evicted, now or later; Namespaces is the number of their namespaces.
	Pods, Namespaces int
}

// heldCondition reports that the evictions of a rule are paused, and how to resume them.
const heldCondition = "dra-steward.io/EvictionHeld"

// The reasons of [heldCondition].
const (
	// reasonOlder: the taint is older than the first start of the controller.
	reasonOlder = "OlderThanController"
	// reasonTooLarge: the impact exceeds the thresholds or the acknowledged impact.
	reasonTooLarge = "AboveThreshold"
)

// A ruleReport is the input for the conditions of a rule.
type ruleReport struct {
	tally
	preview preview
	// excess are the exceeded thresholds, counts the impact. pausedIn is the number of
	// paused namespaces, zero if that is all of them.
	excess   []guard.Excess
	pausedIn int
	counts   guard.Counts
}

// where is in how many of the namespaces evictions are paused, empty if in all.
func (r ruleReport) where() string {
	if r.pausedIn == 0 || r.pausedIn >= r.counts.Namespaces {
		return ""
	}
	return fmt.Sprintf(" in %d of %s", r.pausedIn, namespaces(r.counts.Namespaces))
}

// reportOn returns the report on a rule, without the devices of its preview.
func (c *Controller) reportOn(rule types.UID) ruleReport {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	of := cause{rule: rule}
	report := ruleReport{tally: c.states.causes.tally(rule)}
	report.excess, report.pausedIn = c.breaker.of(of)
	if a := c.states.causes.byCause[of]; a != nil {
		report.preview = preview{Pods: a.preview.pods, Namespaces: len(a.preview.namespaces)}
		report.counts = a.window.counts()
	}
	return report
}

// conditionsOf returns the conditions of a rule; kind is the type of the first.
func conditionsOf(kind string, rule *resourceapi.DeviceTaintRule, report ruleReport, now metav1.Time) []metav1.Condition {
	conditions := []metav1.Condition{progress(kind, rule, report)}
	held := metav1.Condition{Type: heldCondition, Status: metav1.ConditionTrue}
	switch {
	case rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute:
	case len(report.excess) > 0:
		held.Reason = reasonTooLarge
		held.Message = fmt.Sprintf("Evictions are paused%s: %s. To resume them, annotate the rule with %s", report.where(), describe(report.excess), guard.CeilingOf(report.counts).Annotate())
		conditions = append(conditions, held)
	case report.Held > 0:
		held.Reason = reasonOlder
		held.Message = fmt.Sprintf("%s not evicted: the taint is older than the first start of dra-steward. To confirm it, annotate the rule with %s",
			count(report.Held, "pod is", "pods are"), guard.Ceiling{Pods: &report.Held}.Annotate())
		conditions = append(conditions, held)
	}
	for i := range conditions {
		c := &conditions[i]
		c.ObservedGeneration, c.LastTransitionTime = rule.Generation, now
		if had := findCondition(rule, c.Type); had != nil && had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
	}
	return conditions
}

// outdated reports whether the conditions of a rule differ from those in its status, or its
// status has another one of this controller.
func outdated(rule *resourceapi.DeviceTaintRule, conditions []metav1.Condition) bool {
	for _, kind := range []string{ownCondition, heldCondition} {
		if findCondition(rule, kind) != nil && !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind }) {
			return true
		}
	}
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return !sameCondition(findCondition(rule, c.Type), &c) })
}

// progress returns the condition about the evictions of a rule.
func progress(kind string, rule *resourceapi.DeviceTaintRule, report ruleReport) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse}
	switch rule.Spec.Taint.Effect {
	case resourceapi.DeviceTaintEffectNoExecute:
		switch {
		case report.Pending > 0:
			c.Status, c.Reason = metav1.ConditionTrue, reasonPending
			c.Message = fmt.Sprintf("%s to be evicted in %s.", count(report.Pending, "pod needs", "pods need"), namespaces(report.Namespaces))
		case report.Evicted > 0:
			c.Reason = reasonCompleted
		default:
			c.Reason = reasonNotStarted
		}
	case resourceapi.DeviceTaintEffectNone:
		c.Reason = reasonNoEffect
		p := report.preview
		c.Message = fmt.Sprintf("%s selected. %s selected. %s would be evicted in %s if the effect was NoExecute.",
			count(p.Published, "published device", "published devices"), count(p.Allocated, "allocated device", "allocated devices"),
			count(p.Pods, "pod", "pods"), namespaces(p.Namespaces))
	default:
		c.Reason, c.Message = reasonOther, "Eviction only happens for the NoExecute effect."
	}
	if report.Evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += count(report.Evicted, "pod", "pods") + " evicted."
	}
	return c
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func namespaces(n int) string { return count(n, "namespace", "different namespaces") }

var evictedBefore = regexp.MustCompile(`(?:^| )(\d+) pods? evicted\.$`)

// evictedSoFar returns the number of evicted pods in the conditions of a rule. With an own
// condition, or in the mode supplement, the other one is that of the in-tree controller.
func evictedSoFar(mode Mode, rule *resourceapi.DeviceTaintRule) int {
	if own := findCondition(rule, ownCondition); own != nil || mode == ModeSupplement {
		return countIn(own)
	}
	return countIn(findCondition(rule, resourceapi.DeviceTaintConditionEvictionInProgress))
}

// countIn parses the number of evicted pods in a condition of [progress], or zero.
func countIn(had *metav1.Condition) int {
	if had == nil {
		return 0
	}
	found := evictedBefore.FindStringSubmatch(had.Message)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return n
}

func findCondition(rule *resourceapi.DeviceTaintRule, kind string) *metav1.Condition {
	for i := range rule.Status.Conditions {
		if rule.Status.Conditions[i].Type == kind {
			return &rule.Status.Conditions[i]
		}
	}
	return nil
}

// writeConditions applies conditions to the status of a rule, in the newest served version of
// the API. It removes those that this controller wrote before and that are not among them.
func writeConditions(ctx context.Context, client kubernetes.Interface, rule *resourceapi.DeviceTaintRule, all []metav1.Condition) error {
	var conditions []*metaac.ConditionApplyConfiguration
	for _, c := range all {
		conditions = append(conditions, metaac.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).WithMessage(c.Message).
			WithObservedGeneration(c.ObservedGeneration).WithLastTransitionTime(c.LastTransitionTime))
	}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	var err error
	for _, apply := range []func() error{
		func() error {
			_, err := client.ResourceV1().DeviceTaintRules().ApplyStatus(ctx, ac.DeviceTaintRule(rule.Name).WithUID(rule.UID).
				WithStatus(ac.DeviceTaintRuleStatus().WithConditions(conditions...)), options)
			return err
		},
		func() error {
			_, err := client.ResourceV1beta2().DeviceTaintRules().ApplyStatus(ctx, acbeta.DeviceTaintRule(rule.Name).WithUID(rule.UID).
				WithStatus(acbeta.DeviceTaintRuleStatus().WithConditions(conditions...)), options)
			return err
		},
		func() error {
			_, err := client.ResourceV1alpha3().DeviceTaintRules().ApplyStatus(ctx, acalpha.DeviceTaintRule(rule.Name).WithUID(rule.UID).
				WithStatus(acalpha.DeviceTaintRuleStatus().WithConditions(conditions...)), options)
			return err
		},
	} {
		if err = apply(); !apierrors.IsNotFound(err) {
			break
		}
	}
	if isGone(err) {
		return nil // the rule is deleted
	}
	if err != nil {
		return fmt.Errorf("DeviceTaintRule %s: apply conditions: %w", rule.Name, err)
	}
	return nil
}
