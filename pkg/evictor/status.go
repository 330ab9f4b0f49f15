package evictor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// StatusPeriod is the least time between two writes of the status of a rule, but
	// for the first after its spec has changed.
	StatusPeriod = 10 * time.Second
	// QuietPeriod is how long no pod must have been pending before a rule reports that
	// eviction is no longer in progress: a pod can be on its way from the scheduler.
	QuietPeriod = 5 * time.Second
)

// statuses keeps the conditions of rules. Who waits for what stands in maps; the mutex
// guards them and is not held during calls.
type statuses struct {
	c    *Controller
	wake chan struct{}
	// none is how many rules have the effect None, published counts what can change
	// how many devices they select.
	none      atomic.Int32
	published atomic.Uint64

	mutex sync.Mutex
	rules map[string]*ruleState
}

// ruleState is what is known of the status of one rule.
type ruleState struct {
	uid  types.UID
	none bool
	// next is when to look at it, last when it was written.
	next, last time.Time
	// quiet is since when it has had no pending pod.
	quiet time.Time
	// wrote is what was last written as EvictionInProgress.
	wrote *metav1.Condition
	// swept is the spec for which all pods were looked at that it concerns, but for
	// the time of its taint.
	swept *resourceapi.DeviceTaintRuleSpec
	// selects is how many published devices it selects, as of published.
	selects   int
	published uint64
}

func newStatuses(c *Controller) *statuses {
	s := &statuses{c: c, wake: make(chan struct{}, 1), rules: map[string]*ruleState{}}
	s.published.Store(1)
	return s
}

// previewing says whether any rule has the effect None.
func (s *statuses) previewing() bool { return s.none.Load() > 0 }

// ruleChanged looks at a new or changed rule at once, and forgets a deleted one.
func (s *statuses) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	if before != nil && (after == nil || after.UID != before.UID) {
		s.forget(before)
	}
	if after == nil || after.Name == ProbeName {
		return
	}
	s.mutex.Lock()
	r := s.rules[after.Name]
	if r == nil {
		r = &ruleState{uid: after.UID}
		s.rules[after.Name] = r
	}
	if none := after.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNone; none != r.none {
		r.none, r.swept = none, nil
		s.none.Add(map[bool]int32{true: 1, false: -1}[none])
	}
	wrote := r.wrote
	if before == nil || before.Generation != after.Generation || r.next.IsZero() {
		r.quiet, r.next = time.Time{}, time.Now()
	}
	s.mutex.Unlock()
	s.c.finish(func() { s.c.cases.ledger.restore(after.UID, evictedSoFar(after)) })
	if s.c.noticeRule(before, after, wrote) {
		s.c.coexistence(func(o *Coexistence) { o.Seen(RuleSource) })
	}
	s.poke()
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
	s.c.finish(func() { s.c.cases.ledger.forget(rule.UID) })
}

func (s *statuses) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// all looks at all rules as soon as may be.
func (s *statuses) all() { s.hurry(func(*ruleState) bool { return true }) }

// soon looks at a rule as soon as may be.
func (s *statuses) soon(uid types.UID) { s.hurry(func(r *ruleState) bool { return r.uid == uid }) }

func (s *statuses) hurry(which func(*ruleState) bool) {
	now := time.Now()
	s.mutex.Lock()
	for _, r := range s.rules {
		at := r.last.Add(StatusPeriod)
		if now.After(at) {
			at = now
		}
		if which(r) && at.Before(r.next) {
			r.next = at
		}
	}
	s.mutex.Unlock()
	s.poke()
}

func (s *statuses) run(ctx context.Context) {
	for {
		names, wait := s.due(time.Now())
		for _, name := range names {
			s.look(ctx, name)
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

// due takes the rules to look at now, or says how long there is none.
func (s *statuses) due(now time.Time) (names []string, wait time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	wait = StatusPeriod
	for name, r := range s.rules {
		if left := r.next.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		names = append(names, name)
		r.next = now.Add(StatusPeriod)
	}
	return names, wait
}

// again looks at a rule sooner.
func (s *statuses) again(name string, after time.Duration) {
	s.change(name, func(r *ruleState) { r.next = time.Now().Add(after) })
}

func (s *statuses) change(name string, f func(*ruleState)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if r := s.rules[name]; r != nil {
		f(r)
	}
}

// look writes the conditions of a rule if they have changed.
func (s *statuses) look(ctx context.Context, name string) {
	object, exists, err := s.c.options.Rules.GetStore().GetByKey(name)
	rule, ok := object.(*resourceapi.DeviceTaintRule)
	kind := s.c.outlook.Load().shares.condition()
	if err != nil || !exists || !ok || kind == "" {
		return
	}
	account := s.c.reportOn(rule.UID)
	switch rule.Spec.Taint.Effect {
	case resourceapi.DeviceTaintEffectNoExecute:
		if !s.settled(name, account.Pending > 0, time.Now()) {
			s.again(name, time.Second)
			return
		}
	case resourceapi.DeviceTaintEffectNone:
		if !s.sweep(rule) {
			s.again(name, sweepPeriod)
			return
		}
		account.preview.Published = s.selects(rule)
		account.preview.Allocated = s.c.options.Usage.Count(rule.Spec.DeviceSelector)
	}
	conditions := conditionsOf(kind, rule, account, metav1.Now().Rfc3339Copy())
	if !outdated(rule, conditions) {
		return
	}
	s.change(name, func(r *ruleState) {
		r.last = time.Now()
		if kind == resourceapi.DeviceTaintConditionEvictionInProgress {
			r.wrote = &conditions[0]
		}
	})
	err = writeConditions(ctx, s.c.options.Client, rule, conditions)
	s.c.options.Metrics.wroteStatus(err)
	if err != nil {
		s.c.options.Logger.Error(err, "Writing the status of a DeviceTaintRule failed, trying again", "rule", name)
		s.again(name, time.Second)
	}
}

// settled says whether a rule can be reported on: pods are pending, or none has been
// for a while.
func (s *statuses) settled(name string, pending bool, now time.Time) (settled bool) {
	s.change(name, func(r *ruleState) {
		switch {
		case pending:
			r.quiet, settled = time.Time{}, true
		case r.quiet.IsZero():
			r.quiet = now
		default:
			settled = now.Sub(r.quiet) >= QuietPeriod
		}
	})
	return settled
}

// sweepPeriod is how soon to look again whether a preview is complete.
const sweepPeriod = 50 * time.Millisecond

// sweep says whether all pods have been decided about that a rule with the effect None
// concerns, and has that done once for each selector and taint.
func (s *statuses) sweep(rule *resourceapi.DeviceTaintRule) bool {
	merged := s.c.options.Tracker.Snapshot().Rule(rule.Name)
	if merged == nil || merged.UID != rule.UID || merged.Generation != rule.Generation {
		return false
	}
	spec, again := rule.Spec, false
	spec.Taint.TimeAdded = nil
	s.change(rule.Name, func(r *ruleState) {
		if r.swept == nil || !equality.Semantic.DeepEqual(*r.swept, spec) {
			r.swept, r.published, again = &spec, 0, true
		}
	})
	if again {
		s.c.dirty.add(s.c.options.Usage.Concerned(s.c.options.Usage.Allocated(rule.Spec.DeviceSelector)...)...)
	}
	return s.c.dirty.empty()
}

// selects counts the published devices that a rule selects, unless nothing has changed.
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
