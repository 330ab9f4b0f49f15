package evictor

import (
	"context"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
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

// statuses keeps the conditions of rules. Who waits for what stands in maps by name;
// the mutex guards them and is not held during calls.
type statuses struct {
	c    *Controller
	wake chan struct{}

	mutex sync.Mutex
	// next is when to look at a rule.
	next map[string]time.Time
	// quiet is since when a rule has had no pending pod.
	quiet map[types.UID]time.Time
	// previews are what rules with the effect None would do, and as of which change.
	previews map[types.UID]previewed
	// changes counts what can change a preview.
	changes uint64
}

type previewed struct {
	changes, generation uint64
	preview             Preview
}

func newStatuses(c *Controller) *statuses {
	return &statuses{
		c: c, wake: make(chan struct{}, 1), next: map[string]time.Time{},
		quiet: map[types.UID]time.Time{}, previews: map[types.UID]previewed{},
	}
}

// touch notes that a preview may have changed.
func (s *statuses) touch() {
	s.mutex.Lock()
	s.changes++
	s.mutex.Unlock()
}

// ruleChanged looks at a new or changed rule at once, and forgets a deleted one.
func (s *statuses) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if before != nil && (after == nil || after.UID != before.UID) {
		delete(s.next, before.Name)
		delete(s.previews, before.UID)
		s.c.finish(func() { s.c.cases.ledger.forget(before.UID) })
	}
	if before != nil {
		delete(s.quiet, before.UID)
	}
	if after != nil {
		s.next[after.Name] = time.Now()
		s.c.finish(func() {
			s.c.cases.ledger.restore(after.UID, countIn(findCondition(after, s.c.options.Mode.condition())))
		})
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
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
	for name, at := range s.next {
		if left := at.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		names = append(names, name)
		s.next[name] = now.Add(StatusPeriod)
	}
	return names, wait
}

// again looks at a rule sooner.
func (s *statuses) again(name string, at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if next, ok := s.next[name]; ok && at.Before(next) {
		s.next[name] = at
	}
}

// look writes the condition of a rule if it has changed.
func (s *statuses) look(ctx context.Context, name string) {
	object, exists, err := s.c.options.Rules.GetStore().GetByKey(name)
	rule, ok := object.(*resourceapi.DeviceTaintRule)
	if err != nil || !exists || !ok {
		return
	}
	now := metav1.Now().Rfc3339Copy()
	kind := s.c.options.Mode.condition()
	had := findCondition(rule, kind)
	var tally Tally
	s.c.finish(func() { tally = s.c.cases.ledger.tally(rule.UID) })
	if rule.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute && !s.settled(rule, tally, time.Now()) {
		s.again(name, time.Now().Add(time.Second))
		return
	}
	condition := ruleCondition(kind, rule, tally, func() Preview { return s.preview(rule) }, had, now)
	if had != nil && *had == condition {
		return
	}
	err = writeCondition(ctx, s.c.options.Client, rule, condition)
	s.c.options.Metrics.wroteStatus(err)
	if err != nil {
		s.c.options.Logger.Error(err, "Writing the status of a DeviceTaintRule failed, trying again", "rule", name)
		s.again(name, time.Now().Add(time.Second))
	}
}

// settled says whether a rule can be reported on: pods are pending, or none has been
// for a while.
func (s *statuses) settled(rule *resourceapi.DeviceTaintRule, tally Tally, now time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if tally.Pending > 0 {
		delete(s.quiet, rule.UID)
		return true
	}
	since, known := s.quiet[rule.UID]
	if !known {
		s.quiet[rule.UID] = now
		return false
	}
	return now.Sub(since) >= QuietPeriod
}

// preview counts what a rule would do, unless nothing has changed.
func (s *statuses) preview(rule *resourceapi.DeviceTaintRule) Preview {
	s.mutex.Lock()
	had, known := s.previews[rule.UID]
	changes := s.changes
	s.mutex.Unlock()
	if known && had.changes == changes && had.generation == uint64(rule.Generation) {
		return had.preview
	}
	preview := s.c.Preview(rule)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.previews[rule.UID] = previewed{changes: changes, generation: uint64(rule.Generation), preview: preview}
	return preview
}
