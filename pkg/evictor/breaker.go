package evictor

import (
	"fmt"
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
	// tripped are the paused causes, with the exceeded thresholds.
	tripped map[cause][]guard.Excess
}

// excess returns the thresholds that a cause exceeds.
func (b *breaker) excess(c cause, a *causeStat) []guard.Excess {
	if b.thresholds == nil || a == nil {
		return nil
	}
	counts := a.window.counts()
	if c.driver == "" {
		for driver := range a.window.drivers {
			counts.DriverDevices += b.drivers.of[driver].published
		}
	} else if d := b.drivers.of[c.driver]; d.allTainted() {
		counts.Devices, counts.DriverDevices = d.tainted, d.published
	}
	return b.thresholds.Exceeded(counts, a.ceiling)
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

// allowed returns the part of a plan whose causes are below the thresholds, and the causes
// above them.
func (b *breaker) allowed(p plan, l *causeStats) (plan, map[cause][]guard.Excess) {
	var over map[cause][]guard.Excess
	for of := range causes(p.Verdict) {
		if excess := b.excess(of, l.byCause[of]); len(excess) > 0 {
			if over == nil {
				over = map[cause][]guard.Excess{}
			}
			over[of] = excess
		}
	}
	if over == nil {
		return p, nil
	}
	p.Verdict = p.Only(func(r Reason) bool { return over[causeOf(r)] == nil })
	return p, over
}

// reset removes the tripped causes that are below the thresholds again, and returns them.
func (b *breaker) reset(l *causeStats) (done []cause) {
	for of := range b.tripped {
		if excess := b.excess(of, l.byCause[of]); len(excess) > 0 {
			b.tripped[of] = excess
			continue
		}
		delete(b.tripped, of)
		done = append(done, of)
	}
	return done
}

// trip records the paused causes and returns a function that reports the new ones. The
// mutex is held.
func (c *Controller) trip(over map[cause][]guard.Excess) (report func()) {
	var reports []func()
	for of, excess := range over {
		if c.breaker.tripped[of] == nil {
			counts := c.states.causes.of(of).window.counts()
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

// resetBreaker resumes causes that are below the thresholds again and returns a function
// that reports them. The mutex is held.
func (c *Controller) resetBreaker() (report func()) {
	reset := c.breaker.reset(&c.states.causes)
	if len(reset) > 0 {
		c.states.resume()
	}
	return func() {
		for _, of := range reset {
			c.options.Logger.Info("Resumed paused evictions", "uid", of.rule, "driver", of.driver)
			c.statuses.requeueRule(of.rule)
		}
	}
}

func (c *Controller) reportTrip(of cause, excess []guard.Excess, counts guard.Counts) {
	words := describe(excess)
	if of.driver == "" {
		c.options.Logger.Info("Paused the evictions of a DeviceTaintRule", "uid", of.rule, "reason", words, "acknowledge", guard.CeilingOf(counts).Annotate())
		c.statuses.requeueRule(of.rule)
		return
	}
	c.options.Logger.Info("Paused the evictions for the taints of a driver", "driver", of.driver, "reason", words, "acknowledge", DriverCeiling(of.driver)+": "+guard.CeilingOf(counts).String())
	c.report(corev1.EventTypeWarning, "EvictionPaused", fmt.Sprintf("Paused the evictions for taints of driver %s: %s. To resume them, set %s: %q in this object.",
		of.driver, words, DriverCeiling(of.driver), guard.CeilingOf(counts)))
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

// DriverCeiling returns the key of the acknowledged impact of a driver's taints.
func DriverCeiling(driver string) string { return "acknowledged-impact." + driver }

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

func (l *causeStats) of(c cause) *causeStat {
	if l.byCause == nil {
		l.byCause = map[cause]*causeStat{}
	}
	a := l.byCause[c]
	if a == nil {
		a = &causeStat{namespaces: map[string]int{}}
		a.preview.namespaces = map[string]int{}
		l.byCause[c] = a
	}
	return a
}

// add adds (+1) or removes (-1) a pod.
func (l *causeStats) add(c *podState, p plan, by int, now time.Time) {
	for cause := range causes(p.Verdict) {
		l.of(cause).window.add(c, p.Verdict, cause, by, l.of(cause).pending, now)
	}
	l.pend(c, p, by)
}

// pend is add for a pod that remains in the windows of the breaker.
func (l *causeStats) pend(c *podState, p plan, by int) {
	for cause := range causes(p.Verdict) {
		a := l.of(cause)
		a.pending += by
		change(a.namespaces, c.pod.Namespace, by)
		l.tidy(cause, a)
	}
	for cause := range causes(p.held) {
		a := l.of(cause)
		a.held += by
		l.tidy(cause, a)
	}
}

// addPreview adds (+1) or removes (-1) a pod of a rule with the effect None.
func (l *causeStats) addPreview(c *podState, v Verdict, by int) {
	for cause := range causes(v) {
		a := l.of(cause)
		a.preview.pods += by
		change(a.preview.namespaces, c.pod.Namespace, by)
		l.tidy(cause, a)
	}
}

// tidy drops the counts of a cause that are all zero.
func (l *causeStats) tidy(c cause, a *causeStat) {
	if a.idle() && (a.gone || a.evicted == 0 && !a.restored && a.ceiling == nil && a.window.pods == 0) {
		delete(l.byCause, c)
	}
}

// evicted counts a pod that was deleted for the reasons of done.
func (l *causeStats) evicted(done Verdict) {
	for cause := range causes(done) {
		if a := l.byCause[cause]; a != nil {
			a.evicted++
		}
	}
}

// restore adds, once, the count in the status of a rule, unless the journal had it.
func (l *causeStats) restore(rule types.UID, evicted int) {
	if a := l.of(cause{rule: rule}); !a.restored {
		a.evicted, a.restored = a.evicted+max(0, evicted-a.recalled), true
	}
}

// forget drops a deleted rule as soon as no pod has it as a reason.
func (l *causeStats) forget(rule types.UID) {
	if a := l.byCause[cause{rule: rule}]; a != nil {
		a.gone = true
		l.tidy(cause{rule: rule}, a)
	}
}

func (l *causeStats) tally(rule types.UID) tally {
	a := l.byCause[cause{rule: rule}]
	if a == nil {
		return tally{}
	}
	return tally{Pending: a.pending, Namespaces: len(a.namespaces), Evicted: a.evicted, Held: a.held}
}

// breakerCalm is how long a rule or a driver has no pending pods until the circuit breaker
// starts from zero.
const breakerCalm = 10 * time.Minute

// A breakerWindow has the impact of one cause since it last was calm: pending and evicted
// pods. It counts both so that neither a low rate nor a workload that restarts again and
// again stays below the thresholds.
type breakerWindow struct {
	pods       int
	namespaces map[string]int
	drivers    map[string]int
	devices    distinct[DeviceID]
	claims     distinct[types.NamespacedName]
	last       time.Time
	// before is the impact that the previous controller recorded. Devices and claims that
	// are still pending are in both.
	before struct{ devices, claims int }
}

func newBreakerWindow() breakerWindow {
	return breakerWindow{namespaces: map[string]int{}, drivers: map[string]int{}}
}

// add adds (+1) or removes (-1) a pod; pending is the number without it.
func (w *breakerWindow) add(c *podState, v Verdict, of cause, by, pending int, now time.Time) {
	if by > 0 && pending == 0 && now.Sub(w.last) >= breakerCalm {
		*w = breakerWindow{}
	}
	if w.namespaces == nil {
		*w = newBreakerWindow()
	}
	w.last = now
	w.pods += by
	change(w.namespaces, c.pod.Namespace, by)
	for _, r := range v.Reasons {
		if causeOf(r) == of {
			w.devices.change(r.Device, by)
			change(w.drivers, r.Device.Driver, by)
			w.claims.change(r.Claim, by)
		}
	}
}

func (w *breakerWindow) counts() guard.Counts {
	return guard.Counts{
		Devices: max(w.devices.count(), w.before.devices), Claims: max(w.claims.count(), w.before.claims),
		Pods: w.pods, Namespaces: len(w.namespaces),
	}
}

func change[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// distinct counts different values. The zero value is empty.
type distinct[K comparable] struct{ times map[K]int }

func (d *distinct[K]) count() int { return len(d.times) }

// change adds (+1) or removes (-1) a value.
func (d *distinct[K]) change(value K, by int) {
	if d.times == nil {
		d.times = map[K]int{}
	}
	change(d.times, value, by)
}
