package evictor

import "k8s.io/apimachinery/pkg/types"

// A Tally counts what one DeviceTaintRule does.
type Tally struct {
	// Pending pods are still to be evicted, now or later.
	Pending int
	// Namespaces are those of the pending pods.
	Namespaces int
	// Evicted pods were deleted because of the rule, among other reasons.
	Evicted int
}

// ledger counts per rule, kept up to date with each verdict so that reading costs
// nothing. Rules are known by UID: a recreated rule begins anew.
type ledger struct {
	rules map[types.UID]*account
	// slices counts the pending pods that have to leave because of their drivers.
	slices int
}

type account struct {
	pending    int
	namespaces map[string]int
	evicted    int
	restored   bool
	// gone rules are dropped with their last pod.
	gone bool
}

func (l *ledger) of(rule types.UID) *account {
	if l.rules == nil {
		l.rules = map[types.UID]*account{}
	}
	a := l.rules[rule]
	if a == nil {
		a = &account{namespaces: map[string]int{}}
		l.rules[rule] = a
	}
	return a
}

// add counts a pod in (+1) or out (-1).
func (l *ledger) add(c *podCase, plan Verdict, by int) {
	for _, rule := range plan.Rules() {
		a := l.of(rule.UID)
		a.pending += by
		a.namespaces[c.pod.Namespace] += by
		if a.namespaces[c.pod.Namespace] == 0 {
			delete(a.namespaces, c.pod.Namespace)
		}
		if a.gone && a.pending == 0 {
			delete(l.rules, rule.UID)
		}
	}
	if fromDriver(plan) {
		l.slices += by
	}
}

func fromDriver(v Verdict) bool {
	// Those of rules come first.
	return v.Evict() && !v.Reasons[len(v.Reasons)-1].Taint.FromRule()
}

// evicted counts a pod that was deleted.
func (l *ledger) evicted(plan Verdict) {
	for _, rule := range plan.Rules() {
		if a := l.rules[rule.UID]; a != nil {
			a.evicted++
		}
	}
}

// restore takes over the count from before a restart, once.
func (l *ledger) restore(rule types.UID, evicted int) {
	if a := l.of(rule); !a.restored {
		a.evicted, a.restored = a.evicted+evicted, true
	}
}

// forget drops a rule that is gone, as soon as no pod has it as a reason any more.
func (l *ledger) forget(rule types.UID) {
	a := l.rules[rule]
	if a == nil {
		return
	}
	a.gone = true
	if a.pending == 0 {
		delete(l.rules, rule)
	}
}

func (l *ledger) tally(rule types.UID) Tally {
	a := l.rules[rule]
	if a == nil {
		return Tally{}
	}
	return Tally{Pending: a.pending, Namespaces: len(a.namespaces), Evicted: a.evicted}
}
