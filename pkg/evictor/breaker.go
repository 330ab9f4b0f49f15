package evictor

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/table"
	"github.com/dra-steward/dra-steward/pkg/guard"
)

// breakerPeriod is how often what is paused is looked at again.
const breakerPeriod = time.Second

// breaker pauses the evictions of a cause that has hit more than the thresholds, or what
// was acknowledged, allow. The thresholds are those of the guard at admission: what hit
// nobody there can hit thousands later. The mutex of the controller guards it.
type breaker struct {
	// thresholds are nil where nothing is ever paused.
	thresholds *guard.Thresholds
	drivers    drivers
	// warned are the drivers that have tainted more of their devices than the share of
	// the thresholds.
	warned map[string]bool
	// broken are the causes that are paused, and what is too large.
	broken map[cause][]guard.Excess
}

// excess is what a cause has hit too much of.
func (b *breaker) excess(c cause, a *account) []guard.Excess {
	if b.thresholds == nil || a == nil {
		return nil
	}
	counts := a.wave.counts()
	if c.driver == "" {
		for driver := range a.wave.drivers {
			counts.DriverDevices += b.drivers.of[driver].published
		}
	} else if d := b.drivers.of[c.driver]; d.all() {
		counts.Devices, counts.DriverDevices = d.tainted, d.published
	}
	return b.thresholds.Exceeded(counts, a.ceiling)
}

// warn says that a driver has tainted many of its devices, once until it has fewer.
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
	return fmt.Sprintf("Driver %s has given %d of its %d devices NoExecute taints, more than %d %%. If it is all of them nobody is evicted for it.",
		driver, d.tainted, d.published, b.thresholds.Percent)
}

// open is the part of a plan whose causes are not paused, and the causes that are.
func (b *breaker) open(p plan, l *ledger) (plan, map[cause][]guard.Excess) {
	var over map[cause][]guard.Excess
	for of := range causes(p.Verdict) {
		if excess := b.excess(of, l.accounts[of]); len(excess) > 0 {
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

// mend forgets the causes that are no longer too large and says whether there were any.
func (b *breaker) mend(l *ledger) (mended []cause) {
	for of := range b.broken {
		if excess := b.excess(of, l.accounts[of]); len(excess) > 0 {
			b.broken[of] = excess
			continue
		}
		delete(b.broken, of)
		mended = append(mended, of)
	}
	return mended
}

// breakers notes the causes that are paused and returns how to report those that were
// not before. The mutex is held.
func (c *Controller) breakers(over map[cause][]guard.Excess) (report func()) {
	var reports []func()
	for of, excess := range over {
		if c.breaker.broken[of] == nil {
			counts := c.cases.ledger.of(of).wave.counts()
			reports = append(reports, func() { c.broke(of, excess, counts) })
		}
		c.breaker.broken[of] = excess
	}
	return func() {
		for _, report := range reports {
			report()
		}
	}
}

// mend goes on with what is no longer too large and returns how to report it. The mutex
// is held.
func (c *Controller) mend() (report func()) {
	mended := c.breaker.mend(&c.cases.ledger)
	if len(mended) > 0 {
		c.cases.resume()
	}
	return func() {
		for _, of := range mended {
			c.options.Logger.Info("Going on with evictions that were paused", "uid", of.rule, "driver", of.driver)
			c.statuses.soon(of.rule)
		}
	}
}

func (c *Controller) broke(of cause, excess []guard.Excess, counts guard.Counts) {
	words := because(excess)
	if of.driver == "" {
		c.options.Logger.Info("Paused the evictions of a DeviceTaintRule", "uid", of.rule, "because", words, "acknowledge", guard.CeilingOf(counts).Annotate())
		c.statuses.soon(of.rule)
		return
	}
	c.options.Logger.Info("Paused the evictions for the taints of a driver", "driver", of.driver, "because", words, "acknowledge", DriverCeiling(of.driver)+": "+guard.CeilingOf(counts).String())
	c.report(corev1.EventTypeWarning, "EvictionPaused", fmt.Sprintf("The taints of driver %s evict nobody for now: %s. To go on, set %s: %q here.",
		of.driver, words, DriverCeiling(of.driver), guard.CeilingOf(counts)))
}

func because(excess []guard.Excess) string {
	var words []string
	for _, one := range excess {
		words = append(words, one.String())
	}
	return strings.Join(words, ", ")
}

// drivers count the devices of each driver, by what its slices say.
type drivers struct {
	slices map[string]driverCount
	of     map[string]driverCount
}

// driverCount is the number of published devices, and of those that the driver itself
// has given a NoExecute taint.
type driverCount struct {
	driver             string
	published, tainted int
}

// all says that the driver has tainted every device that it has, and more than one.
func (d driverCount) all() bool { return d.published > 1 && d.tainted == d.published }

// set takes the count of a slice; a zero one is that of a slice that is gone.
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

// DriverCeiling is the key under which an admin acknowledges what the taints of a driver
// may hit.
func DriverCeiling(driver string) string { return "acknowledged-impact." + driver }

// A Confirmation is what an admin has said since the start of the controller.
type Confirmation struct {
	// ActSince is as in [Options].
	ActSince time.Time
	// Ceilings are what the taints of drivers may hit, by driver.
	Ceilings map[string]guard.Ceiling
}

// Confirm takes what an admin has said into account, in place of what was said before.
func (c *Controller) Confirm(said Confirmation) {
	c.finish(func() {
		for of, a := range c.cases.ledger.accounts {
			if of.driver != "" {
				a.ceiling = nil
			}
		}
		for driver, ceiling := range said.Ceilings {
			c.cases.ledger.of(cause{driver: driver}).ceiling = &ceiling
		}
	})
	if !c.outlook.Load().since.Equal(said.ActSince) {
		c.look(func(o *outlook) { o.since = said.ActSince })
	}
	c.wakeUp()
}

// confirmed says whether the author of a rule has acknowledged what it hits, so that its
// age does not matter.
func (c *Controller) confirmed(rule Rule) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	a := c.cases.ledger.accounts[cause{rule: rule.UID}]
	return a != nil && a.ceiling != nil
}

// acknowledge takes over what a rule says of what it may hit.
func (c *Controller) acknowledge(uid types.UID, annotations map[string]string) (changedSaying bool) {
	ceiling, err := guard.Acknowledged(annotations)
	if err != nil {
		c.options.Logger.Error(err, "An acknowledgement does not count", "uid", uid)
	}
	c.finish(func() {
		a := c.cases.ledger.of(cause{rule: uid})
		changedSaying = (a.ceiling == nil) != (ceiling == nil) || ceiling != nil && !a.ceiling.Equal(*ceiling)
		a.ceiling = ceiling
	})
	return changedSaying
}

// A Tally counts what one DeviceTaintRule does.
type Tally struct {
	// Pending pods are still to be evicted, now or later.
	Pending int
	// Namespaces are those of the pending pods.
	Namespaces int
	// Evicted pods were deleted because of the rule, among other reasons.
	Evicted int
	// Held pods would be evicted if the rule was confirmed.
	Held int
}

// A cause is a DeviceTaintRule, or a driver that taints devices in its slices. Rules are
// known by UID: a recreated rule begins anew.
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

// causes are those of the reasons of a verdict, each once.
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

// ledger counts per cause, kept up to date with each verdict so that reading costs
// nothing.
type ledger struct {
	accounts map[cause]*account
}

// account is the count of one cause.
type account struct {
	pending int
	// namespaces are those of the pending pods.
	namespaces map[string]int
	// evicted are those of all controllers, recalled those of the ones before as far as
	// the journal knew.
	evicted, recalled int
	held              int
	restored          bool
	// preview is what a rule with the effect None would do.
	preview struct {
		pods       int
		namespaces map[string]int
	}
	wave wave
	// ceiling is what was acknowledged, nil for nothing.
	ceiling *guard.Ceiling
	// gone rules are dropped with their last pod.
	gone bool
}

func (a *account) idle() bool {
	return a.pending == 0 && a.held == 0 && a.preview.pods == 0
}

func (l *ledger) of(c cause) *account {
	if l.accounts == nil {
		l.accounts = map[cause]*account{}
	}
	a := l.accounts[c]
	if a == nil {
		a = &account{namespaces: map[string]int{}}
		a.preview.namespaces = map[string]int{}
		l.accounts[c] = a
	}
	return a
}

// add counts a pod in (+1) or out (-1).
func (l *ledger) add(c *podCase, p plan, by int, now time.Time) {
	for cause := range causes(p.Verdict) {
		l.of(cause).wave.add(c, p.Verdict, cause, by, l.of(cause).pending, now)
	}
	l.pend(c, p, by)
}

// pend is add for a pod that goes on counting for the waves.
func (l *ledger) pend(c *podCase, p plan, by int) {
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

// would counts a pod in (+1) or out (-1) that a rule with the effect None would evict.
func (l *ledger) would(c *podCase, v Verdict, by int) {
	for cause := range causes(v) {
		a := l.of(cause)
		a.preview.pods += by
		change(a.preview.namespaces, c.pod.Namespace, by)
		l.tidy(cause, a)
	}
}

// tidy drops an account that there is nothing to remember of.
func (l *ledger) tidy(c cause, a *account) {
	if a.idle() && (a.gone || a.evicted == 0 && !a.restored && a.ceiling == nil && a.wave.pods == 0) {
		delete(l.accounts, c)
	}
}

// evicted counts a pod out that was deleted for the reasons of done.
func (l *ledger) evicted(done Verdict) {
	for cause := range causes(done) {
		if a := l.accounts[cause]; a != nil {
			a.evicted++
		}
	}
}

// restore takes over the count that the status of a rule has, once, as far as the journal
// did not know it.
func (l *ledger) restore(rule types.UID, evicted int) {
	if a := l.of(cause{rule: rule}); !a.restored {
		a.evicted, a.restored = a.evicted+max(0, evicted-a.recalled), true
	}
}

// forget drops a rule that is gone, as soon as no pod has it as a reason any more.
func (l *ledger) forget(rule types.UID) {
	if a := l.accounts[cause{rule: rule}]; a != nil {
		a.gone = true
		l.tidy(cause{rule: rule}, a)
	}
}

func (l *ledger) tally(rule types.UID) Tally {
	a := l.accounts[cause{rule: rule}]
	if a == nil {
		return Tally{}
	}
	return Tally{Pending: a.pending, Namespaces: len(a.namespaces), Evicted: a.evicted, Held: a.held}
}

// Calm is how long nothing may have been pending for a rule or a driver until what it
// has evicted no longer counts for the circuit breaker.
const Calm = 10 * time.Minute

// A wave is what one cause has hit since it last was calm: what is pending and what was
// evicted. That it counts both keeps a slow rate, or a workload that comes back again and
// again, from passing below the thresholds.
type wave struct {
	pods       int
	namespaces map[string]int
	drivers    map[string]int
	devices    distinct[DeviceID]
	claims     distinct[types.NamespacedName]
	last       time.Time
	// before is what the wave had hit when a controller before this one was ended; it is
	// among devices and claims as far as it is still pending.
	before struct{ devices, claims int }
}

func newWave() wave {
	return wave{namespaces: map[string]int{}, drivers: map[string]int{}}
}

// add counts a pod in (+1) or out (-1); pending is how many are without it.
func (w *wave) add(c *podCase, v Verdict, of cause, by, pending int, now time.Time) {
	if by > 0 && pending == 0 && now.Sub(w.last) >= Calm {
		*w = wave{}
	}
	if w.namespaces == nil {
		*w = newWave()
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

func (w *wave) counts() guard.Counts {
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

// distinct counts how many different values there are among those that were added and not
// taken out again. It knows them by a hash of 63 bits alone: two of ten thousand have the
// same one once in 10^11 times. The zero value has none.
type distinct[K comparable] struct {
	seed maphash.Seed
	seen table.Table[uint64, hash]
	// again is how often those are there that are more than once.
	again map[uint64]int
}

// hash is an entry that is its own key, and never zero.
type hash uint64

// Key implements [table.Entry].
func (h hash) Key() uint64 { return uint64(h) }

func (d *distinct[K]) count() int { return d.seen.Len() }

// change adds a value (+1) or takes it out (-1).
func (d *distinct[K]) change(value K, by int) {
	if d.again == nil {
		d.seed, d.again = maphash.MakeSeed(), map[uint64]int{}
	}
	h := maphash.Comparable(d.seed, value) | 1
	switch {
	case d.again[h] > 0 || by > 0 && d.seen.Get(h) != 0:
		change(d.again, h, by)
	case by > 0:
		d.seen.Add(hash(h))
	default:
		d.seen.Remove(hash(h))
	}
}
