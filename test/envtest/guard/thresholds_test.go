package guard_test

import (
	"cmp"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

// A shape is an attack on the thresholds by an author of rules, or by a driver.
type shape struct {
	name string
	// attack evicts as many pods as it can without an acknowledgement.
	attack func(s *siege)
	// promise is how many pods docs/taints.md says that can be at most within the window, and why in a few words if it
	// is not the threshold. A negative one says that nothing here bounds it.
	promise int
	why     string
	// window is that of the guard, 10 minutes by default.
	window time.Duration
	// short shapes run in each run of the tests.
	short bool
}

// rounds is how often an attack repeats what it does.
const rounds = 6

// toggled lets a rule for the pool evict, stops it, and waits for the pods to come back, again and again.
func toggled(kind, how string) func(s *siege) {
	return func(s *siege) {
		s.workload(kind, threshold)
		s.create(s.rule("toggled", "", preview(), ""))
		for range rounds {
			before := s.gone()
			if !s.effect("toggled", how, "NoExecute") {
				return
			}
			s.leaves(before + threshold)
			s.effect("toggled", how, preview())
			if _, back := s.back(threshold); !back {
				return
			}
		}
	}
}

// followed creates a rule for each device that a pod holds, and does so again when the pods hold others.
func followed(pods int, name func(round, n int) string, after func(s *siege, name string)) func(s *siege) {
	return func(s *siege) {
		s.workload("StatefulSet", pods)
		for round := range rounds {
			before, admitted := s.gone(), 0
			for n, device := range s.held() {
				if s.create(s.rule(name(round, n), device, "NoExecute", "")) {
					admitted++
					s.leaves(before + admitted)
					if after != nil {
						after(s, name(round, n))
					}
				}
			}
			if admitted == 0 {
				return
			}
			s.seen(pods) // none is to land on a device whose rule kube-scheduler has not seen
		}
	}
}

// each evicts from one device after the other with what evict does; pods are of no controller.
func each(pods int, evict func(s *siege, n int, device string) bool) func(s *siege) {
	return func(s *siege) {
		s.workload("", pods)
		for n, device := range s.held() {
			evict(s, n, device)
		}
		s.settle()
	}
}

// again is a rule of its own for each device.
func again(s *siege, n int, device string) bool {
	return s.create(s.rule(fmt.Sprint(n), device, "NoExecute", ""))
}

func unique(round, n int) string { return fmt.Sprint(round, "-", n) }

// ready is how many pods attacks have that take one device after the other.
const ready = 2 * threshold

// landed is why a rule can evict one pod more than it counts.
const landed = "a pod that lands before kube-scheduler sees the rule of its device counts against later rules only"

// shapes are all attacks.
func shapes() []shape {
	all := []shape{
		{name: "a StatefulSet, one rule toggled", attack: toggled("StatefulSet", "merge"), promise: threshold, short: true},
		{name: "a StatefulSet, rules of one device that follow its pods", attack: followed(threshold, unique, nil), promise: threshold, short: true},
		{name: "a ReplicaSet, one rule toggled", attack: toggled("ReplicaSet", "update"), promise: threshold},
		{name: "a Deployment, one rule toggled", attack: toggled("Deployment", "json"), promise: threshold},
		{name: "a Job, one rule toggled", attack: toggled("Job", "strategic"), promise: threshold},
		{name: "a StatefulSet, one rule toggled by server-side apply", attack: toggled("StatefulSet", "apply"), promise: threshold},
		{name: "one rule for all devices", attack: func(s *siege) {
			s.workload("", ready)
			s.create(s.rule("all", "", "NoExecute", ""))
			s.settle()
		}, promise: 0, why: "the rule by itself exceeds it"},
		{name: "a rule for each device", attack: each(ready, again), promise: threshold},
		{name: "50 rules at once", attack: atOnce, promise: threshold},
		{name: "rules that are deleted once they have evicted", attack: followed(threshold, unique, (*siege).delete), promise: 2 * threshold, why: landed},
		{name: "one rule, deleted and made again for the next device", attack: followed(threshold, func(int, int) string { return "again" }, (*siege).delete), promise: 2 * threshold, why: landed},
		{name: "one rule that moves from device to device", attack: moved, promise: threshold},
		{name: "one rule whose key changes", attack: keys, promise: threshold},
		{name: "rules in each version of the API", attack: versions, promise: threshold},
	}
	return append(all, laterShapes()...)
}

func laterShapes() []shape {
	return []shape{
		{name: "rules with a timeAdded of last year", attack: each(ready, dated(func() time.Time { return time.Now().AddDate(-1, 0, 0) })), promise: threshold},
		{name: "rules with one timeAdded in the future", attack: func(s *siege) {
			at := time.Now().Add(time.Minute)
			each(ready, dated(func() time.Time { return at }))(s)
			<-time.After(time.Until(at))
			s.settle()
		}, promise: threshold},
		{name: "a timeAdded that is moved to now", attack: moveTime, promise: threshold},
		{name: "time slices of half a window", attack: timeSlices, promise: threshold, window: 20 * time.Second},
		{name: "the status of rules is written", attack: statuses, promise: threshold},
		{name: "a replica that restarts", attack: restarted, promise: 2 * threshold, why: "one threshold more for each restart"},
		{name: "a replica that has not read the cluster", attack: unsynced, promise: threshold},
		{name: "devices that are published later", attack: published, promise: 0, why: "by the names in claims, published or not"},
		{name: "an acknowledgement that is used again", attack: acknowledgedAgain, promise: threshold},
		{name: "a large acknowledgement, then rules without one", attack: acknowledgedFirst, promise: ready, why: "the acknowledged impact"},
		{name: "256 pods that share a claim", attack: func(s *siege) {
			s.shared(256)
			s.create(s.rule("shared", "gpu-00", "NoExecute", ""))
			s.create(s.rule("acknowledged", "gpu-00", "NoExecute", "pods<=255"))
			s.settle()
		}, promise: 0, why: "the rule by itself exceeds it"},
		{name: "pods that are made again under their names", attack: recreated, promise: threshold},
		{name: "the rate of a drain, with a rule", attack: drained, promise: 2 * threshold, why: "drains at the default rate count half"},
		{name: "taints in a driver's own slice", attack: driverTaints, promise: -1, why: "kube-controller-manager evicts for them"},
		{name: "a drain, a rule and a reaction together", attack: together, promise: 2 * threshold, why: "drains at the default rate count half"},
	}
}

// TestThresholds: no attack evicts more pods than docs/taints.md promises. By default a few of them run, with
// DRA_STEWARD_CAMPAIGN all, and DRA_STEWARD_RECORD writes test/results/thresholds.tsv.
func TestThresholds(t *testing.T) {
	all := os.Getenv("DRA_STEWARD_CAMPAIGN") != ""
	table := longrun.NewTable("thresholds.tsv", "attack", "pods evicted", "promise", "reason")
	for n, one := range shapes() {
		if !all && !one.short {
			continue
		}
		t.Run(one.name, func(t *testing.T) {
			window := cmp.Or(one.window, guard.DefaultWindow)
			s := newSiege(t, n, window.String())
			one.attack(s)
			most := s.most(window - time.Duration(float64(window)*0.2)) // a pod leaves some time after its rule is written
			t.Logf("%d writes were admitted and %d refused: %d pods were evicted within %s; the threshold is %d, the promise %d", s.admitted, s.refused, most, window, threshold, one.promise)
			if one.promise >= 0 && most > one.promise {
				t.Errorf("%d pods were evicted, at most %d are promised", most, one.promise)
			}
			promise := fmt.Sprint(one.promise)
			if one.promise < 0 {
				promise = "none"
			}
			if table.Add(one.name, most, promise, one.why); all {
				table.Write(t)
			}
		})
	}
}
