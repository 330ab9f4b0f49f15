package evictor

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
