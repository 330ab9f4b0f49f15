package evictor

import (
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/guard"
)

// breakerPeriod is how often paused causes are checked.
const breakerPeriod = time.Second

// breaker is the circuit breaker: it pauses the evictions of a cause with an impact above
// the thresholds, or above the acknowledged impact. The guard checks the same thresholds
// at admission, but the impact of a rule can grow later. The controller's mutex protects
// it.
type breaker struct {
	// thresholds are nil if the breaker is off.
	thresholds *guard.Thresholds
	drivers    drivers
	// warned are the drivers that taint more than the threshold's percentage of their
	// devices.
	warned map[string]bool
	// tripped are the paused evictions, with the exceeded thresholds.
	tripped map[pause][]guard.Excess
}

// A pause is about the evictions of a cause in one namespace, or in all if that is empty.
type pause struct {
	cause
	namespace string
}

// paused returns the causes that are paused, in whatever namespaces.
func (b *breaker) paused() map[cause]struct{} {
	all := make(map[cause]struct{}, len(b.tripped))
	for of := range b.tripped {
		all[of.cause] = struct{}{}
	}
	return all
}

// of returns the thresholds that a cause exceeds, and the number of paused namespaces, zero
// if that is all of them.
func (b *breaker) of(c cause) (excess []guard.Excess, namespaces int) {
	if excess := b.tripped[pause{cause: c}]; excess != nil {
		return excess, 0
	}
	for of, its := range b.tripped {
		if of.cause == c {
			excess, namespaces = its, namespaces+1
		}
	}
	return excess, namespaces
}

// excess returns the thresholds that a cause exceeds in a namespace, or in all of them. A
// namespace counts in others as in [breakerWindow.podsFor], so that no tenant alone pauses the evictions
// of others. Messages have what an acknowledgement needs: the numbers of all namespaces.
func (b *breaker) excess(of pause, a *causeStat) []guard.Excess {
	if b.thresholds == nil || a == nil {
		return nil
	}
	counts := a.window.counts()
	if of.driver == "" {
		for driver := range a.window.drivers {
			counts.DriverDevices += b.drivers.of[driver].published
		}
	} else if d := b.drivers.of[of.driver]; d.allTainted() {
		counts.Devices, counts.DriverDevices = d.tainted, d.published
	}
	all := b.thresholds.Exceeded(counts, a.ceiling)
	if len(all) == 0 {
		return nil
	}
	limit := b.thresholds.Pods
	if a.ceiling != nil && a.ceiling.Pods != nil {
		limit = *a.ceiling.Pods
	}
	counts.Pods = a.window.podsFor(of.namespace, limit)
	if len(b.thresholds.Exceeded(counts, a.ceiling)) == 0 {
		return nil
	}
	return all
}

// warn returns a warning when a driver starts to taint many of its devices.
func (b *breaker) warn(driver string, d driverCount) string {
	if b.thresholds == nil {
		return ""
	}
	many, warned := d.published > 1 && d.tainted*100 > d.published*b.thresholds.Percent, b.warned[driver]
	if !many {
		delete(b.warned, driver)
		return ""
	}
	b.warned[driver] = true
	if warned {
		return ""
	}
	return fmt.Sprintf("Driver %s has set NoExecute taints on %d of its %d devices, more than %d %%. If it taints all of them, their evictions are paused.",
		driver, d.tainted, d.published, b.thresholds.Percent)
}

// allowed returns the part of a plan for a pod of a namespace whose causes are below the
// thresholds, and those above them.
func (b *breaker) allowed(p plan, namespace string, l *causeStats) (plan, map[pause][]guard.Excess) {
	var over map[pause][]guard.Excess
	for of := range causes(p.Verdict) {
		for _, where := range []string{"", namespace} {
			if excess := b.excess(pause{of, where}, l.byCause[of]); len(excess) > 0 {
				if over == nil {
					over = map[pause][]guard.Excess{}
				}
				over[pause{of, where}] = excess
				break
			}
		}
	}
	if over == nil {
		return p, nil
	}
	p.Verdict = p.Only(func(r Reason) bool {
		return over[pause{causeOf(r), ""}] == nil && over[pause{causeOf(r), namespace}] == nil
	})
	return p, over
}

// reset removes the pauses that are below the thresholds again, and returns them.
func (b *breaker) reset(l *causeStats) (done []pause) {
	for of := range b.tripped {
		if excess := b.excess(of, l.byCause[of.cause]); len(excess) > 0 {
			b.tripped[of] = excess
			continue
		}
		delete(b.tripped, of)
		done = append(done, of)
	}
	return done
}

// trip records pauses and returns a function that reports the new ones. The mutex is held.
func (c *Controller) trip(over map[pause][]guard.Excess) (report func()) {
	var reports []func()
	for of, excess := range over {
		if c.breaker.tripped[of] == nil {
			counts := c.states.causes.of(of.cause).window.counts()
			reports = append(reports, func() { c.reportTrip(of, excess, counts) })
		}
		c.breaker.tripped[of] = excess
	}
	return func() {
		for _, report := range reports {
			report()
		}
	}
}

// resetBreaker resumes what is below the thresholds again and returns a function that
// reports it. The mutex is held.
func (c *Controller) resetBreaker() (report func()) {
	reset := c.breaker.reset(&c.states.causes)
	if len(reset) > 0 {
		c.states.resume()
	}
	return func() {
		for _, of := range reset {
			c.options.Logger.Info("Resumed paused evictions", "uid", of.rule, "driver", of.driver, "namespace", of.namespace)
			c.statuses.requeueRule(of.rule)
		}
	}
}

func (c *Controller) reportTrip(of pause, excess []guard.Excess, counts guard.Counts) {
	words := describe(excess)
	if of.driver == "" {
		c.options.Logger.Info("Paused the evictions of a DeviceTaintRule", "uid", of.rule, "namespace", of.namespace, "reason", words, "acknowledge", guard.CeilingOf(counts).Annotate())
		c.statuses.requeueRule(of.rule)
		return
	}
	where := ""
	if of.namespace != "" && counts.Namespaces > 1 {
		where = " in namespace " + of.namespace
	}
	c.options.Logger.Info("Paused the evictions for the taints of a driver", "driver", of.driver, "namespace", of.namespace, "reason", words, "acknowledge", guard.DriverCeiling(of.driver)+": "+guard.CeilingOf(counts).String())
	c.report(corev1.EventTypeWarning, "EvictionPaused", fmt.Sprintf("Paused the evictions for taints of driver %s%s: %s. To resume them, set %s: %q in this object.",
		of.driver, where, words, guard.DriverCeiling(of.driver), guard.CeilingOf(counts)))
}

func describe(excess []guard.Excess) string {
	var words []string
	for _, one := range excess {
		words = append(words, one.String())
	}
	return strings.Join(words, ", ")
}

// drivers counts the published devices per driver.
type drivers struct {
	slices map[string]driverCount
	of     map[string]driverCount
}

// driverCount is the number of published devices, and of those to which the driver itself
// gives a NoExecute taint.
type driverCount struct {
	driver             string
	published, tainted int
}

// allTainted reports whether the driver has more than one device and taints all of them.
func (d driverCount) allTainted() bool { return d.published > 1 && d.tainted == d.published }

// set updates the count of a slice; zero removes it.
func (d *drivers) set(slice string, now driverCount) {
	if d.of == nil {
		d.slices, d.of = map[string]driverCount{}, map[string]driverCount{}
	}
	d.add(d.slices[slice], -1)
	d.add(now, +1)
	if d.slices[slice] = now; now == (driverCount{}) {
		delete(d.slices, slice)
	}
}

func (d *drivers) add(c driverCount, by int) {
	if c.driver == "" {
		return
	}
	sum := d.of[c.driver]
	sum.driver, sum.published, sum.tainted = c.driver, sum.published+by*c.published, sum.tainted+by*c.tainted
	if d.of[c.driver] = sum; sum.published == 0 {
		delete(d.of, c.driver)
	}
}

// A Confirmation is what an admin confirms while the controller runs.
type Confirmation struct {
	// ActSince is as in [Options].
	ActSince time.Time
	// Ceilings are the acknowledged impacts of drivers' taints, by driver.
	Ceilings map[string]guard.Ceiling
}

// Confirm replaces the previous confirmation.
func (c *Controller) Confirm(confirmed Confirmation) {
	c.locked(func() {
		for of, a := range c.states.causes.byCause {
			if of.driver != "" {
				a.ceiling = nil
			}
		}
		for driver, ceiling := range confirmed.Ceilings {
			c.states.causes.of(cause{driver: driver}).ceiling = &ceiling
		}
	})
	if !c.scope.Load().since.Equal(confirmed.ActSince) {
		c.rescope(func(o *scope) { o.since = confirmed.ActSince })
	}
	c.wakeUp()
}

// confirmed reports whether a rule has an acknowledged impact, so that its age does not
// matter.
func (c *Controller) confirmed(rule Rule) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	a := c.states.causes.byCause[cause{rule: rule.UID}]
	return a != nil && a.ceiling != nil
}

// acknowledge updates the acknowledged impact of a rule.
func (c *Controller) acknowledge(uid types.UID, annotations map[string]string) (updated bool) {
	ceiling, err := guard.Acknowledged(annotations)
	if err != nil {
		c.options.Logger.Error(err, "Ignored an invalid acknowledged impact", "uid", uid)
	}
	c.locked(func() {
		a := c.states.causes.of(cause{rule: uid})
		updated = (a.ceiling == nil) != (ceiling == nil) || ceiling != nil && !a.ceiling.Equal(*ceiling)
		a.ceiling = ceiling
	})
	return updated
}

// A tally has the counts of one DeviceTaintRule.
type tally struct {
	// Pending pods are still to be evicted, now or later.
	Pending int
	// Namespaces are those of the pending pods.
	Namespaces int
	// Evicted pods were deleted because of the rule, among other reasons.
	Evicted int
	// Held pods are evicted once the rule is confirmed.
	Held int
}

// A cause is a DeviceTaintRule, or a driver that taints devices in its slices. The UID
// identifies a rule, so a recreated one starts from zero.
type cause struct {
	rule   types.UID
	driver string
}

func causeOf(r Reason) cause {
	if r.Taint.FromRule() {
		return cause{rule: r.Taint.Rule.UID}
	}
	return cause{driver: r.Device.Driver}
}

// causes returns those of the reasons of a verdict, each once.
func causes(v Verdict) map[cause]struct{} {
	if !v.Evict() {
		return nil
	}
	all := make(map[cause]struct{}, 1)
	for _, r := range v.Reasons {
		all[causeOf(r)] = struct{}{}
	}
	return all
}

// causeStats has the counts per cause. Each decision updates them, so reads are cheap.
type causeStats struct {
	byCause map[cause]*causeStat
}

// causeStat has the counts of one cause.
type causeStat struct {
	pending int
	// namespaces are those of the pending pods.
	namespaces map[string]int
	// evicted includes the pods of previous controllers; recalled are those in the journal.
	evicted, recalled int
	held              int
	restored          bool
	// preview is the impact of a rule with the effect None, if it were NoExecute.
	preview struct {
		pods       int
		namespaces map[string]int
	}
	window breakerWindow
	// ceiling is the acknowledged impact, or nil.
	ceiling *guard.Ceiling
	// gone: the rule is deleted. The counts are dropped with its last pod.
	gone bool
}

func (a *causeStat) idle() bool {
	return a.pending == 0 && a.held == 0 && a.preview.pods == 0
}

func (s *causeStats) of(c cause) *causeStat {
	if s.byCause == nil {
		s.byCause = map[cause]*causeStat{}
	}
	a := s.byCause[c]
	if a == nil {
		a = &causeStat{namespaces: map[string]int{}}
		a.preview.namespaces = map[string]int{}
		s.byCause[c] = a
	}
	return a
}

// add adds (+1) or removes (-1) a pod; until is up to when reasons count in the windows of
// the breaker.
func (s *causeStats) add(c *podState, p plan, until int64, by int, now time.Time) {
	counted := p.within(until)
	for cause := range causes(counted) {
		s.of(cause).window.add(c.pod.Namespace, counted, cause, by, now)
	}
	s.pend(c, p, until, by)
}

// takeBack removes a pod that is not pending from the windows of the breaker, unless they have started from zero since.
func (s *causeStats) takeBack(namespace string, counted Verdict) {
	for cause := range causes(counted) {
		a := s.byCause[cause]
		if a == nil {
			continue
		}
		if its := a.window.portions[namespace]; its != nil && its.pods > its.pending {
			a.window.add(namespace, counted, cause, -1, a.window.last)
			s.tidy(cause, a)
		}
	}
}

// pend is add for a pod that remains in the windows of the breaker.
func (s *causeStats) pend(c *podState, p plan, until int64, by int) {
	for cause := range causes(p.Verdict) {
		a := s.of(cause)
		a.pending += by
		change(a.namespaces, c.pod.Namespace, by)
		if p.dueAfter(&cause, math.MinInt64, until) {
			a.window.pend(c.pod.Namespace, by)
		}
		s.tidy(cause, a)
	}
	for cause := range causes(p.held) {
		a := s.of(cause)
		a.held += by
		s.tidy(cause, a)
	}
}

// addPreview adds (+1) or removes (-1) a pod of a rule with the effect None.
func (s *causeStats) addPreview(c *podState, v Verdict, by int) {
	for cause := range causes(v) {
		a := s.of(cause)
		a.preview.pods += by
		change(a.preview.namespaces, c.pod.Namespace, by)
		s.tidy(cause, a)
	}
}

// tidy drops the counts of a cause that are all zero.
func (s *causeStats) tidy(c cause, a *causeStat) {
	if a.idle() && (a.gone || a.evicted == 0 && !a.restored && a.ceiling == nil && a.window.pods == 0) {
		delete(s.byCause, c)
	}
}

// evicts notes that a pod is evicted now.
func (s *causeStats) evicts(c *podState, now time.Time) {
	for cause := range causes(c.plan.verdict().within(c.until)) {
		s.of(cause).window.evicts(c.pod.Namespace, now)
	}
}

// evicted counts a pod that was deleted for the reasons of done.
func (s *causeStats) evicted(namespace string, done Verdict) {
	for cause := range causes(done) {
		if a := s.byCause[cause]; a != nil {
			a.evicted++
			a.window.evicted(namespace, done, cause)
		}
	}
}

// restore adds, once, the count in the status of a rule, unless the journal had it.
func (s *causeStats) restore(rule types.UID, evicted int) {
	if a := s.of(cause{rule: rule}); !a.restored {
		a.evicted, a.restored = a.evicted+max(0, evicted-a.recalled), true
	}
}

// forget drops a deleted rule as soon as no pod has it as a reason.
func (s *causeStats) forget(rule types.UID) {
	if a := s.byCause[cause{rule: rule}]; a != nil {
		a.gone = true
		s.tidy(cause{rule: rule}, a)
	}
}

func (s *causeStats) tally(rule types.UID) tally {
	a := s.byCause[cause{rule: rule}]
	if a == nil {
		return tally{}
	}
	return tally{Pending: a.pending, Namespaces: len(a.namespaces), Evicted: a.evicted, Held: a.held}
}
