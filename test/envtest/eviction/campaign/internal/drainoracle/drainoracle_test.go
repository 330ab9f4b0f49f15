package drainoracle

import (
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// at is a time of a history, in seconds from its begin.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// moment is a write that took half a second.
func moment(seconds float64) oracle.Moment {
	return oracle.Moment{Earliest: at(seconds), Latest: at(seconds + 0.5)}
}

func device(name string) oracle.Device {
	return oracle.Device{Driver: "gpu.example.com", Pool: "node-0", Name: name}
}

// removal evicts a pod.
func removal(pod string, seconds float64) Removal { return Removal{Pod: pod, At: at(seconds)} }

// history has a drain of gpu-0 and gpu-1 from second 100 on, which writes its rules at 102, evicts the
// pods a and b at 113 and 125, and is Drained at 140.
func history() *History {
	pod := func(uid, gpu string) *Pod {
		return &Pod{UID: uid, Name: uid, Namespace: "one", Node: "node-0", App: "web", Controlled: true,
			Devices: []oracle.Device{device(gpu)}, Period: Period{Begin: moment(10)}}
	}
	rules := []Rule{{"d", device("gpu-0")}, {"d", device("gpu-1")}}
	return &History{
		Drains: []*Drain{{Name: "d", Devices: []oracle.Device{device("gpu-0"), device("gpu-1")}, PerMinute: 6, Period: Period{Begin: moment(100)}}},
		Pods:   []*Pod{pod("a", "gpu-0"), pod("b", "gpu-1"), pod("other", "gpu-2")},
		Writes: []Write{{at(102), "d"}, {at(102.5), "d"}},
		Removals: []Removal{
			removal("a", 113), removal("b", 125),
		},
		Samples: []Sample{
			{Moment: moment(90), Drains: map[string]State{}},
			{Moment: moment(120), Rules: rules, Drains: map[string]State{"d": {}}},
			{Moment: moment(500), Rules: rules, Drains: map[string]State{"d": {Drained: true, Since: at(140)}}},
		},
		Gone: map[string]time.Time{"a": at(116), "b": at(128)}, Left: map[string]bool{"other": true},
		Work: 10 * time.Second, Observation: 5 * time.Second, Flight: 2 * time.Second, Leaving: 4 * time.Second, Until: at(500),
	}
}

func (h *History) drain() *Drain { return h.Drains[0] }

// deadline gives the drain a deadline.
func (h *History) deadline(seconds float64, action string) {
	h.drain().Deadline = &Deadline{moment(seconds), action}
}

// stays removes the evidence that a pod went.
func (h *History) stays(uid string) {
	var kept []Removal
	for _, r := range h.Removals {
		if r.Pod != uid {
			kept = append(kept, r)
		}
	}
	h.Removals = kept
	delete(h.Gone, uid)
	h.Left[uid] = true
}

// notEnded removes the end of the drain.
func (h *History) notEnded() { h.Samples[2].Drains["d"] = State{} }

// expect fails unless a history has the violations and no other.
func expect(t *testing.T, h *History, want ...Kind) {
	t.Helper()
	got := h.Check()
	same := len(got) == len(want)
	for i := range got {
		same = same && got[i].Kind == want[i]
	}
	if !same {
		t.Errorf("violations %v, want %v", got, want)
	}
}

type planted struct {
	text  string
	plant func(h *History)
	want  []Kind
}

func run(t *testing.T, all []planted) {
	t.Helper()
	for _, tt := range all {
		t.Run(tt.text, func(t *testing.T) {
			h := history()
			tt.plant(h)
			expect(t, h, tt.want...)
		})
	}
}

// TestRemovals plants removals that the text allows or does not allow.
func TestRemovals(t *testing.T) {
	evictOther := func(h *History) { h.Removals = append(h.Removals, removal("other", 130)) }
	last := func(h *History) *Removal { return &h.Removals[1] }
	run(t, []planted{
		{"as it should be", func(*History) {}, nil},
		{"a pod on another device", evictOther, []Kind{Wrong}},
		{"a pod that no test created", func(h *History) { h.Removals = append(h.Removals, removal("unknown", 130)) }, []Kind{Wrong}},
		{"before the drain", func(h *History) { h.Removals[0].At = at(99) }, []Kind{Wrong}},
		{"observed later than deleted", func(h *History) { h.drain().End = moment(120); h.Samples = h.Samples[:2] }, nil},
		{"after the drain was deleted", func(h *History) { h.drain().End = moment(119); h.Samples = h.Samples[:2] }, []Kind{Wrong}},
		{"while nothing is observed", func(h *History) {
			h.drain().End, h.Samples = moment(119), h.Samples[:2]
			h.Stale = []oracle.Span{{From: at(118), To: at(122)}}
		}, nil},
		{"while paused", func(h *History) { h.drain().Pauses = []Period{{moment(119), moment(130)}} }, []Kind{Wrong}},
		{"when resumed", func(h *History) { h.drain().Pauses = []Period{{moment(114), moment(124)}} }, nil},
		{"in a dry run", func(h *History) { h.drain().DryRun = true; h.Samples = nil }, []Kind{Wrong, Wrong}},
		{"after the deadline", func(h *History) { h.deadline(122, Keep) }, []Kind{Wrong}},
		{"after it failed", func(h *History) { h.deadline(122, Fail) }, []Kind{Wrong}},
		{"a pod that has no controller", func(h *History) { h.Pods[1].Controlled, h.drain().KeepsBare = false, true }, []Kind{Wrong}},
		{"at its end", func(h *History) {
			h.drain().Uncordons = true
			h.Samples[1].Drains["d"] = State{Drained: true, Since: at(122)}
			h.Samples[1].Rules, h.Samples[2].Rules = nil, nil
		}, []Kind{Wrong, Drained}},
		{"a deletion", func(h *History) { last(h).Delete = true }, []Kind{Wrong}},
		{"a deletion before the deadline", func(h *History) { h.deadline(126, Delete); last(h).Delete = true }, []Kind{Wrong}},
		{"a deletion after the deadline", func(h *History) { h.deadline(122, Delete); last(h).Delete = true }, nil},
		{"twice", func(h *History) { h.Removals = append(h.Removals, removal("b", 126)) }, []Kind{Twice}},
		{"lost", func(h *History) { h.Removals = h.Removals[:1] }, []Kind{Lost}},
		{"with an open answer", func(h *History) { last(h).Unanswered = true }, nil},
		{"deleted by its user", func(h *History) { h.Removals, h.Pods[1].End = h.Removals[:1], moment(124) }, nil},
	})
}

// TestLimits plants evictions beyond budgets, rates and limits.
func TestLimits(t *testing.T) {
	budget := func(from, to float64) *Budget {
		return &Budget{Namespace: "one", App: "web", Protected: map[string]bool{"b": true}, InForce: at(from + 1), Period: Period{moment(from), moment(to)}}
	}
	run(t, []planted{
		{"against a budget", func(h *History) { h.Budgets = []*Budget{budget(115, 130)} }, []Kind{Broken}},
		{"before a budget", func(h *History) { h.Budgets = []*Budget{budget(124.5, 130)} }, nil},
		{"after a budget", func(h *History) { h.Budgets = []*Budget{budget(115, 124)} }, nil},
		{"a deletion regardless of a budget", func(h *History) {
			h.Budgets = []*Budget{budget(115, 130)}
			h.deadline(122, Delete)
			h.Removals[1].Delete = true
		}, nil},
		{"too many in a minute", func(h *History) { h.drain().PerMinute = 1 }, []Kind{Rate}},
		{"too many of a namespace", func(h *History) { h.drain().PerNamespace, h.Gone["a"] = 1, at(126) }, []Kind{Limit}},
		{"too many of a node", func(h *History) { h.drain().PerNode, h.Gone["a"] = 1, at(126) }, []Kind{Limit}},
		{"one after the other", func(h *History) { h.drain().PerNode = 1 }, nil},
		{"two drains that share a device", func(h *History) {
			second := *h.drain()
			second.Name, h.drain().PerMinute, second.PerMinute = "e", 1, 1
			h.Drains = append(h.Drains, &second)
			h.Samples = nil
		}, nil},
	})
}

// TestCordons plants rules that are late, missing or left behind.
func TestCordons(t *testing.T) {
	withoutRule := func(h *History) { h.Samples[1].Rules = h.Samples[1].Rules[:1] }
	run(t, []planted{
		{"too early", func(h *History) { h.Writes[1].At = at(103.5) }, []Kind{Early}},
		{"without a rule", func(h *History) { h.Writes = nil }, []Kind{Early, Early}},
		{"after a rule was restored", func(h *History) { h.Writes = append(h.Writes, Write{at(120), "d"}) }, []Kind{Early}},
		{"without knowing that a rule was restored", func(h *History) {
			h.Writes = append(h.Writes, Write{at(120), "d"})
			h.Stale = []oracle.Span{{From: at(118), To: at(122)}}
		}, nil},
		{"a missing rule", withoutRule, []Kind{Cordon}},
		{"a missing rule without a leader", func(h *History) {
			withoutRule(h)
			h.Unled = []oracle.Span{{From: at(95), To: at(112)}}
		}, nil},
		{"a rule to be restored", func(h *History) {
			withoutRule(h)
			h.Tampered = []Tampering{{Rule{"d", device("gpu-1")}, moment(115)}}
		}, nil},
		{"a rule that is not restored", func(h *History) {
			withoutRule(h)
			h.Tampered = []Tampering{{Rule{"d", device("gpu-1")}, moment(108)}}
		}, []Kind{Cordon}},
		{"a rule of the pool", func(h *History) { h.Samples[1].Rules = []Rule{{"d", device("")}} }, nil},
		{"left behind", func(h *History) { h.drain().End = moment(200) }, []Kind{Cordon}},
		{"left behind at its end", func(h *History) {
			h.drain().Uncordons = true
			h.Samples = append(h.Samples, Sample{Moment: moment(520), Rules: h.Samples[2].Rules, Drains: h.Samples[2].Drains})
		}, []Kind{Cordon}},
		{"a dry run with rules", func(h *History) {
			h.drain().DryRun, h.Removals, h.Gone = true, nil, nil
			h.stays("a")
			h.stays("b")
			h.notEnded()
		}, []Kind{Cordon}},
	})
}

// TestEnds plants pods that stay, and drains that end too late or too soon.
func TestEnds(t *testing.T) {
	stays := func(h *History) { h.stays("b"); h.notEnded() }
	run(t, []planted{
		{"a pod that stays", stays, []Kind{Missed}},
		{"a pod that is evicted late", func(h *History) { h.Removals[1].At, h.Gone["b"] = at(170), at(172); h.notEnded(); h.Until = at(200) }, []Kind{Missed, Missed}},
		{"a pod that stays without a leader", func(h *History) { stays(h); h.Unled = []oracle.Span{{From: at(95), To: at(480)}} }, nil},
		{"a pod that stays while paused", func(h *History) { stays(h); h.drain().Pauses = []Period{{Begin: moment(115)}} }, nil},
		{"a pod that stays after a pause", func(h *History) { stays(h); h.drain().Pauses = []Period{{moment(115), moment(150)}} }, []Kind{Missed}},
		{"a pod that a budget blocks", func(h *History) {
			stays(h)
			h.Budgets = []*Budget{{Namespace: "one", App: "web", Period: Period{Begin: moment(115)}}}
		}, nil},
		{"a pod that a budget allows", func(h *History) {
			stays(h)
			h.Budgets = []*Budget{{Namespace: "one", App: "web", Period: Period{moment(115), moment(150)}}}
		}, []Kind{Missed}},
		{"a pod without a controller", func(h *History) { stays(h); h.Pods[1].Controlled, h.drain().KeepsBare = false, true }, nil},
		{"a pod without a controller after the deadline", func(h *History) {
			stays(h)
			h.Pods[1].Controlled, h.drain().KeepsBare = false, true
			h.deadline(150, Delete)
		}, []Kind{Missed}},
		{"a pod that may stay after the deadline", func(h *History) { stays(h); h.deadline(122, Keep) }, nil},
		{"a drain that has not failed", func(h *History) { stays(h); h.deadline(122, Fail) }, []Kind{Missed}},
		{"a drain that is not Drained", (*History).notEnded, []Kind{Missed}},
		{"Drained with a pod", func(h *History) { h.stays("b") }, []Kind{Missed, Drained}},
		{"Drained too soon", func(h *History) { h.Samples[2].Drains["d"] = State{Drained: true, Since: at(131)} }, []Kind{Drained}},
	})
}
