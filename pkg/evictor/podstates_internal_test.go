package evictor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestCasesKeepCount runs random histories and counts again after every step what the
// ledger has kept up to date. In the end nothing is left of anything.
func TestCasesKeepCount(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		cs := newPodStates()
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var taken []*podState
		for range 150 {
			now = now.Add(time.Duration(random.IntN(60)) * time.Second)
			pod := types.NamespacedName{Namespace: fmt.Sprint("ns-", random.IntN(2)), Name: fmt.Sprint("pod-", random.IntN(6))}
			uid := types.UID(fmt.Sprint(pod, random.IntN(2)))
			switch random.IntN(9) {
			case 8:
				cs.countDue(now)
			case 0, 1, 2:
				cs.decided(pod, uid, randomDecision(random, now), now)
			case 3:
				cs.gone(pod, now)
			case 4:
				if c := cs.take(now); c != nil {
					taken = append(taken, c)
				}
			case 5:
				cs.resume()
			default:
				if len(taken) > 0 {
					c := taken[0]
					taken = taken[1:]
					[]func(){
						func() { cs.evicted(c, c.plan.verdict()) }, func() { cs.over(c) }, func() { cs.postpone(c, now.Add(time.Second)) },
						func() { cs.unanswered(c, c.plan.verdict(), now.Add(time.Second)) },
						func() {
							if cs.known(c) && c.plan != nil {
								cs.pause(c)
							} else {
								cs.postpone(c, now)
							}
						},
					}[random.IntN(5)]()
				}
			}
			recount(t, cs)
		}
		for _, name := range slices.Collect(maps.Keys(cs.pods)) {
			cs.gone(name, now)
		}
		recount(t, cs)
		counted := 0
		for _, d := range cs.takeDeletions() {
			counted += len(causes(d.verdict))
		}
		evicted := 0
		for _, a := range cs.causes.byCause {
			evicted += a.evicted
		}
		if counted < evicted {
			t.Fatalf("%d evictions counted, %d reported", evicted, counted)
		}
		for of, a := range cs.causes.byCause {
			if !a.idle() || len(a.namespaces) != 0 || len(a.preview.namespaces) != 0 {
				t.Fatalf("%v keeps %+v", of, a)
			}
			a.gone = true
			cs.causes.tidy(of, a)
		}
		if len(cs.causes.byCause)+len(cs.taints)+len(cs.pods)+len(cs.queue)+len(cs.paused)+len(cs.byState) != 0 {
			t.Fatalf("left behind: %+v", cs)
		}
	}
}

// TestUnansweredLate: the pod is seen to go before the answer, which is a timeout, comes.
func TestUnansweredLate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := types.NamespacedName{Namespace: "ns", Name: "pod"}
	verdict := Verdict{Reasons: []Reason{{At: now, Taint: &Taint{Rule: Rule{Name: "rule", UID: "rule"}}}}}.normalized()
	for name, goes := range map[string]func(cs *podStates){
		"gone": func(cs *podStates) { cs.gone(pod, now) },
		"ends": func(cs *podStates) { cs.decided(pod, "uid", decision{ending: true}, now) },
	} {
		cs := newPodStates()
		d := decision{verdict: verdict}
		d.plan.Verdict = verdict
		cs.decided(pod, "uid", d, now)
		c := cs.take(now)
		goes(cs)
		cs.unanswered(c, verdict, now)
		recount(t, cs)
		if got := cs.causes.tally("rule"); got != (tally{Evicted: 1}) {
			t.Errorf("%s: counted %+v", name, got)
		}
	}
}

// dueNow is a decision to evict now because of a rule.
func dueNow(rule types.UID, now time.Time) decision {
	d := decision{verdict: Verdict{Reasons: []Reason{{At: now, Taint: &Taint{Rule: Rule{Name: "rule", UID: rule}}}}}.normalized()}
	d.plan.Verdict = d.verdict
	return d
}

// TestRecreatedPod: a pod of the same name, whose predecessor was evicted and whose deletion
// was missed, is evicted, too. Until then the evicted one is evicted and counted once,
// whatever is decided about it.
func TestRecreatedPod(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := types.NamespacedName{Namespace: "ns", Name: "pod"}
	cs := newPodStates()
	cs.decided(pod, "first", dueNow("rule", now), now)
	c := cs.take(now)
	cs.evicted(c, c.plan.verdict())
	if got := cs.decided(pod, "first", dueNow("other", now), now); got != unchanged || cs.take(now.Add(time.Hour)) != nil {
		t.Errorf("a deleted pod is %v, and evicted again", got)
	}
	if got := cs.decided(pod, "second", dueNow("rule", now), now); got != planned {
		t.Errorf("the next pod of that name is %v, want planned", got)
	}
	if next := cs.take(now); next == nil || next.uid != "second" {
		t.Errorf("the next pod of that name is not evicted: %+v", next)
	}
	recount(t, cs)
}

// TestRecreatedRule: a rule that is recreated under its name is another reason.
func TestRecreatedRule(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, second := dueNow("first", now).verdict, dueNow("second", now).verdict
	if first.equal(second) {
		t.Error("the verdicts for a rule and the one that replaced it are equal")
	}
	if both := Merge(first, second); len(both.Reasons) != 2 || len(both.rules()) != 2 {
		t.Errorf("merged: %+v", both)
	}
}

func randomDecision(random *rand.Rand, now time.Time) decision {
	if random.IntN(5) == 0 {
		return decision{ending: true}
	}
	d := decision{verdict: randomVerdict(random, now), preview: randomVerdict(random, now)}
	d.plan.Verdict = d.verdict.Only(func(Reason) bool { return random.IntN(3) > 0 })
	d.plan.held = d.verdict.Only(func(Reason) bool { return random.IntN(3) == 0 })
	return d
}

func randomVerdict(random *rand.Rand, now time.Time) Verdict {
	var v Verdict
	for range random.IntN(4) {
		r := Reason{Taint: &Taint{}, At: now.Add(time.Duration(random.IntN(5)) * time.Second), Device: DeviceID{Device: fmt.Sprint(random.IntN(2))}}
		r.Claim.Name = fmt.Sprint(random.IntN(3))
		if random.IntN(3) == 0 {
			r.At = now.Add(time.Duration(random.IntN(30)) * time.Minute)
		}
		if n := random.IntN(3); n > 0 {
			r.Taint.Rule = Rule{Name: fmt.Sprint("rule-", n), UID: types.UID(fmt.Sprint("rule-", n))}
		}
		v.Reasons = append(v.Reasons, r)
	}
	return v.normalized()
}

// recounted is what a recount finds for one cause.
type recounted struct {
	pending, counted, held, preview int
	namespaces, previews            map[string]bool
}

func recount(t *testing.T, cs *podStates) {
	t.Helper()
	want, states := map[cause]*recounted{}, map[string]int{}
	of := func(c cause) *recounted {
		if want[c] == nil {
			want[c] = &recounted{namespaces: map[string]bool{}, previews: map[string]bool{}}
		}
		return want[c]
	}
	for c := range cs.all() {
		for cause := range causes(c.plan.verdict()) {
			of(cause).pending++
			of(cause).namespaces[c.pod.Namespace] = true
		}
		for cause := range causes(c.plan.verdict().within(c.until)) {
			of(cause).counted++
		}
		for cause := range causes(c.held.verdict()) {
			of(cause).held++
		}
		for cause := range causes(c.preview.verdict()) {
			of(cause).preview++
			of(cause).previews[c.pod.Namespace] = true
		}
		if state := c.state(); state != "" {
			states[state]++
		}
		if (c.heapIndex >= 0) != (c.stage == waiting && c.plan != nil) {
			t.Fatalf("pod %s in stage %d with plan %t has place %d", c.pod, c.stage, c.plan != nil, c.heapIndex)
		}
		if _, aside := cs.paused[c]; aside != (c.stage == paused) {
			t.Fatalf("pod %s in stage %d is put aside: %t", c.pod, c.stage, aside)
		}
	}
	for cause, a := range cs.causes.byCause {
		n := of(cause)
		if a.pending != n.pending || a.held != n.held || a.preview.pods != n.preview ||
			len(a.namespaces) != len(n.namespaces) || len(a.preview.namespaces) != len(n.previews) {
			t.Fatalf("%v: kept %+v, counted %+v", cause, a, n)
		}
		if a.window.pods < n.counted || a.window.pending() != n.counted {
			t.Fatalf("%v: %d pending pods are due soon, the window has %+v", cause, n.counted, a.window)
		}
		a.window.recount(t)
	}
	for cause, n := range want {
		if cs.causes.byCause[cause] == nil && n.pending+n.held+n.preview > 0 {
			t.Fatalf("%v: counted %+v, nothing kept", cause, n)
		}
	}
	delete(cs.byState, "")
	if !maps.Equal(states, cs.byState) {
		t.Fatalf("states: kept %v, counted %v", cs.byState, states)
	}
}

// recount compares the sums of a window with its portions.
func (w *breakerWindow) recount(t *testing.T) {
	t.Helper()
	pods := w.before.pods
	var devices, claims distinct
	for namespace, s := range w.portions {
		pods += s.pods
		for device, times := range s.devices.times {
			devices.change(device, times)
		}
		for claim, times := range s.claims.times {
			claims.change(claim, times)
		}
		if s.pending < 0 || s.pending > s.pods || w.podsFor(namespace, 4) > w.pods {
			t.Fatalf("portion of %s: %+v of %+v", namespace, s, w)
		}
	}
	if pods != w.pods || !maps.Equal(claims.times, w.claims.times) || !maps.Equal(devices.times, w.devices.times) {
		t.Fatalf("window %+v, its portions have %d pods, claims %v, devices %v", w, pods, claims, devices)
	}
}
