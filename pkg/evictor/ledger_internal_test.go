package evictor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestCasesKeepCount runs random histories and counts anew after every step what the
// ledger has kept up to date. In the end nothing is left of anything.
func TestCasesKeepCount(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		cs := newCases(0)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var taken []*podCase
		for range 150 {
			now = now.Add(time.Second)
			pod := types.NamespacedName{Namespace: fmt.Sprint("ns-", random.IntN(2)), Name: fmt.Sprint("pod-", random.IntN(6))}
			uid := types.UID(fmt.Sprint(pod, random.IntN(2)))
			switch random.IntN(7) {
			case 0, 1, 2:
				v := randomVerdict(random, now)
				plan := v.Only(func(Reason) bool { return random.IntN(3) > 0 })
				cs.decided(pod, uid, v, plan, now)
			case 3:
				cs.gone(pod)
			case 4:
				if c := cs.take(now); c != nil {
					taken = append(taken, c)
				}
			default:
				if len(taken) > 0 {
					c := taken[0]
					taken = taken[1:]
					[]func(){func() { cs.evicted(c, c.plan) }, func() { cs.left(c) }, func() { cs.postpone(c, now.Add(time.Second)) }}[random.IntN(3)]()
				}
			}
			recount(t, cs)
		}
		for name := range cs.byName {
			cs.gone(name)
		}
		recount(t, cs)
		for uid, a := range cs.ledger.rules {
			if a.pending != 0 || len(a.namespaces) != 0 {
				t.Fatalf("rule %s keeps %+v", uid, a)
			}
			cs.ledger.forget(uid)
		}
		if len(cs.ledger.rules)+len(cs.byUID)+len(cs.byName)+len(cs.agenda) != 0 || cs.ledger.slices != 0 {
			t.Fatalf("left behind: %+v", cs)
		}
	}
}

func randomVerdict(random *rand.Rand, now time.Time) Verdict {
	var v Verdict
	for range random.IntN(4) {
		r := Reason{At: now.Add(time.Duration(random.IntN(5)) * time.Second), Device: DeviceID{Device: fmt.Sprint(random.IntN(2))}}
		if n := random.IntN(3); n > 0 {
			r.Taint.Rule = Rule{Name: fmt.Sprint("rule-", n), UID: types.UID(fmt.Sprint("rule-", n))}
		}
		v.Reasons = append(v.Reasons, r)
	}
	return v.settled()
}

func recount(t *testing.T, cs *cases) {
	t.Helper()
	want, slices := map[types.UID]Tally{}, 0
	namespaces := map[types.UID]map[string]bool{}
	for _, c := range cs.byUID {
		for _, rule := range c.plan.Rules() {
			tally := want[rule.UID]
			if namespaces[rule.UID] == nil {
				namespaces[rule.UID] = map[string]bool{}
			}
			namespaces[rule.UID][c.pod.Namespace] = true
			tally.Pending, tally.Namespaces = tally.Pending+1, len(namespaces[rule.UID])
			want[rule.UID] = tally
		}
		if fromDriver(c.plan) {
			slices++
		}
		if (c.place >= 0) != (c.stage == waiting && c.plan.Evict()) {
			t.Fatalf("pod %s in stage %d with plan %t has place %d", c.pod, c.stage, c.plan.Evict(), c.place)
		}
	}
	for uid := range cs.ledger.rules {
		got := cs.ledger.tally(uid)
		got.Evicted = 0
		if got != want[uid] {
			t.Fatalf("rule %s: kept %+v, counted %+v", uid, got, want[uid])
		}
	}
	if cs.ledger.slices != slices || len(cs.byName) != len(cs.byUID) {
		t.Fatalf("slices: kept %d, counted %d; %d names of %d pods", cs.ledger.slices, slices, len(cs.byName), len(cs.byUID))
	}
}
