package evictor

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/guard"
)

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
