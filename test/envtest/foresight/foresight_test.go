package foresight_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/servergates"
)

// A score counts the pods for which verdicts agree with what happened.
type score struct {
	sync.Mutex
	worlds, competing int
	// pods leave, arrive or wait already; moves are the first two, of which some land.
	pods, moves, lands int
	// agree are the pods whose verdict is right; naive those for which a comparison of
	// free devices with requests is. restless are those of ReplicaSets that are evicted again and again.
	agree, contested, restless, naive int
	lines                             []string
}

// atOnce is how many worlds exist at a time.
const atOnce = 8

// TestPredictThenDo predicts a change, makes it, and compares.
func TestPredictThenDo(t *testing.T) {
	first, count := number(t, seedVariable, 1), uint64(10)
	switch {
	case os.Getenv(longVariable) != "":
		// Each minor has worlds of its own.
		span := map[string][2]uint64{newest: {1, 300}, "1.36": {301, 60}, "1.35": {361, 40}, oldest: {401, 40}}[minor()]
		first, count = number(t, seedVariable, span[0]), span[1]
	case os.Getenv(seedVariable) != "":
		count = 1
	}
	count = number(t, worldsVariable, count)
	total := each(t, first, count, newPlan, (*world).predictAndMake)
	total.judge(t, int(count))
}

// each makes worlds, some at a time, and lets them be compared.
func each(t *testing.T, first, count uint64, plan func(seed uint64) *plan, compare func(*world, *score)) *score {
	t.Helper()
	newWorld := worlds(t)
	total, turn := &score{}, make(chan struct{}, atOnce)
	t.Run("worlds", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				turn <- struct{}{}
				defer func() { <-turn }()
				w := newWorld(t, plan(seed))
				defer w.remove()
				w.create()
				compare(w, total)
			})
		}
	})
	return total
}

// worlds returns how worlds are made, with the clients and the gates of the cluster.
func worlds(t *testing.T) func(*testing.T, *plan) *world {
	t.Helper()
	config := rest.CopyConfig(cluster.Config())
	config.QPS, config.Burst, config.WarningHandler = 500, 1000, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(strings.TrimPrefix(minor(), "1."))
	if err != nil {
		t.Fatal(err)
	}
	reported, err := servergates.Read(t.Context(), client.RESTClient())
	if err != nil {
		t.Fatal(err)
	}
	used := servergates.Of(reported, nil, number)
	return func(t *testing.T, p *plan) *world {
		return &world{T: t, plan: p, client: client, dynamic: untyped, gates: used}
	}
}

// predictAndMake predicts the change, makes it, and adds the agreement to the score.
func (w *world) predictAndMake(total *score) {
	seen := w.read()
	answer, err := seen.Predict(w.Context(), w.planned(seen))
	w.must(err)
	guess := w.guess(seen, answer)
	if w.change.kind == changeClass {
		w.flag(seen)
	}
	w.restless = evictedAgainOf(answer)
	w.make(seen)
	w.settle()
	w.compare(total, seen, answer, guess)
}

// evictedAgainOf are the ReplicaSets with a pod that lands where a taint evicts it again.
func evictedAgainOf(answer placement.Answer) map[string]bool {
	sets := map[string]bool{}
	for _, m := range slices.Concat(answer.Moves, answer.Waiting) {
		if m.Again != nil {
			sets[strings.TrimPrefix(m.Owner, "ReplicaSet/")] = true
		}
	}
	return sets
}

// number is the value of a variable.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// judge fails if the prediction is not good enough, or too easy.
func (s *score) judge(t *testing.T, worlds int) {
	t.Logf("%d worlds, in %d of them three or more pods compete for fewer places; %d pods leave or arrive, of which %d land, and %d wait already: %d verdicts agree, %d are contested, %d are of ReplicaSets that are evicted again and again; free devices agree for %d",
		s.worlds, s.competing, s.moves, s.lands, s.pods-s.moves, s.agree, s.contested, s.restless, s.naive)
	for _, line := range s.lines {
		t.Log(line)
	}
	if s.worlds < worlds {
		t.Errorf("%d of %d worlds were compared", s.worlds, worlds)
	}
	if 100*s.agree < 99*s.pods {
		t.Errorf("%d of %d verdicts agree: want 99 %%", s.agree, s.pods)
	}
	if worlds < 10 {
		return
	}
	if 2*s.competing < worlds {
		t.Errorf("pods compete in %d of %d worlds: want half", s.competing, worlds)
	}
	if 100*s.naive >= 80*s.pods {
		t.Errorf("to compare free devices with requests agrees for %d of %d pods: the worlds are too easy", s.naive, s.pods)
	}
}

// A set is what is predicted of the pods of a ReplicaSet, which are interchangeable.
type set struct {
	// stay run throughout; lands, waits and contested are the others by their verdict.
	stay, lands, waits, contested int
	reasons                       []string
	// landed is how many run in the end, and refused what the scheduler says of the others.
	landed  int
	refused []string
}

func ownerOf(pod *corev1.Pod) string {
	for _, owner := range pod.OwnerReferences {
		return owner.Name
	}
	return ""
}

// sets sorts the moves by ReplicaSet.
func sets(seen placement.Cluster, answer placement.Answer) map[string]*set {
	all := map[string]*set{}
	moved := map[string]bool{}
	of := func(name string) *set {
		if all[name] == nil {
			all[name] = &set{}
		}
		return all[name]
	}
	for _, m := range slices.Concat(answer.Moves, answer.Waiting) {
		moved[m.Pod] = true
		s := of(strings.TrimPrefix(m.Owner, "ReplicaSet/"))
		switch {
		case m.Contested:
			s.contested++
		case m.Verdict == placement.Lands:
			s.lands++
		default:
			s.waits++
		}
		if m.Reason != nil {
			s.reasons = append(s.reasons, m.Reason.Message)
		}
	}
	for _, pod := range seen.Pods {
		if !moved[pod.Name] {
			of(ownerOf(pod)).stay++
		}
	}
	return all
}

// compare adds the agreement of one world to the score.
func (w *world) compare(total *score, seen placement.Cluster, answer placement.Answer, guess map[string]int) {
	all := sets(seen, answer)
	for _, pod := range w.pods() {
		s := all[ownerOf(pod)]
		if s == nil {
			w.Fatalf("%s: pod %s has no set", w.name, pod.Name)
		}
		if pod.Spec.NodeName != "" {
			s.landed++
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				s.refused = append(s.refused, c.Message)
			}
		}
	}
	total.Lock()
	defer total.Unlock()
	total.worlds++
	landed, least, most := 0, answer.Least, answer.Most
	for _, m := range answer.Waiting {
		if m.Contested || m.Verdict == placement.Lands {
			most++
		}
		if !m.Contested && m.Verdict == placement.Lands {
			least++
		}
	}
	if moving := len(answer.Moves) + len(answer.Waiting); moving >= 3 && least < moving {
		total.competing++
	}
	total.moves, total.lands = total.moves+len(answer.Moves), total.lands+answer.Most
	stay := 0
	for name, s := range all {
		n := s.lands + s.waits + s.contested
		low, high := s.stay+s.lands, s.stay+s.lands+s.contested
		if w.restless[name] { // as predicted, some of them run at a time
			s.landed, total.restless = min(max(s.landed, low), high), total.restless+n
		}
		wrong := max(low-s.landed, s.landed-high, 0)
		total.pods, total.agree, total.contested = total.pods+n, total.agree+n-wrong, total.contested+s.contested
		total.naive += n - min(n, abs(s.landed-s.stay-guess[name]))
		landed, stay = landed+s.landed, stay+s.stay
		if wrong > 0 {
			total.lines = append(total.lines, fmt.Sprintf("seed %s, %s, set %s: %d to %d of %d predicted, %d run\n  predicted: %q\n  scheduler: %q",
				w.name, w.change, name, low, high, s.stay+n, s.landed, s.reasons, s.refused))
		}
	}
	if landed-stay < least || landed-stay > most {
		total.agree -= max(least-(landed-stay), landed-stay-most)
		total.lines = append(total.lines, fmt.Sprintf("seed %s, %s: %d to %d land together predicted, %d do", w.name, w.change, least, most, landed-stay))
	}
}

func abs(n int) int { return max(n, -n) }
