package evictor

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

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
