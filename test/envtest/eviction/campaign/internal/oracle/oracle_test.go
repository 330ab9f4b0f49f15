package oracle

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	exists    = resourceapi.DeviceTolerationOpExists
	equal     = resourceapi.DeviceTolerationOpEqual
	noExecute = resourceapi.DeviceTaintEffectNoExecute
)

// at is a time of a history, in seconds from its begin.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// moment is a write that took a second.
func moment(seconds float64) Moment { return Moment{at(seconds), at(seconds + 1)} }

// history has one standing taint example.com/hot=yes:NoExecute on gpu-0, from second 100 on.
func history(change ...func(*Standing)) *History {
	s := Standing{
		Source: "rule", Selector: &resourceapi.DeviceTaintSelector{Device: new("gpu-0")}, Begin: moment(100),
		Taint: resourceapi.DeviceTaint{Key: "example.com/hot", Value: "yes", Effect: noExecute, TimeAdded: &metav1.Time{Time: at(100)}},
	}
	for _, c := range change {
		c(&s)
	}
	return &History{Standings: []Standing{s}, Work: 10 * time.Second, Observation: 5 * time.Second, Until: at(1000)}
}

// pod holds gpu-0 from second 10 on.
func pod(tolerations ...resourceapi.DeviceToleration) *Pod {
	return &Pod{Name: "train", Begin: moment(10), Uses: []Use{{
		Device: Device{"gpu.example.com", "node-0", "gpu-0"}, Tolerations: tolerations, Begin: moment(10),
	}}}
}

// timed is a toleration of the taint for so many seconds.
func timed(seconds int64) resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{Key: "example.com/hot", Operator: exists, Effect: noExecute, TolerationSeconds: &seconds}
}

// expect checks the outcomes of a pod that is not evicted, and of one that is evicted at
// each of the times.
func expect(t *testing.T, h *History, p *Pod, kept Outcome, evicted map[float64]Outcome) {
	t.Helper()
	if got := h.Check(p, nil); got.Outcome != kept {
		t.Errorf("not evicted: %s, want %s", got, kept)
	}
	for seconds, want := range evicted {
		if got := h.Check(p, []time.Time{at(seconds)}); got.Outcome != want {
			t.Errorf("evicted at %v: %s, want %s", seconds, got, want)
		}
	}
}

// TestTolerations has a history for each sentence of KEP-5055 about tolerations.
func TestTolerations(t *testing.T) {
	never := map[float64]Outcome{50: Wrong, 105: Wrong, 500: Wrong}
	immediately := map[float64]Outcome{99: Wrong, 101: Evicted, 111: Evicted, 112: Missed}
	after30 := map[float64]Outcome{101: Wrong, 129: Wrong, 130: Evicted, 140: Evicted, 141: Missed}
	for _, tt := range []struct {
		text        string
		tolerations []resourceapi.DeviceToleration
		kept        Outcome
		evicted     map[float64]Outcome
	}{
		{"evict any already-running pods that do not tolerate the device taint", nil, Missed, immediately},
		{"an empty key means match all taint keys, and all values", []resourceapi.DeviceToleration{{Operator: exists}}, Kept, never},
		{"an empty effect means match all taint effects", []resourceapi.DeviceToleration{{Key: "example.com/hot", Operator: exists}}, Kept, never},
		{"a toleration of NoSchedule does not tolerate NoExecute", []resourceapi.DeviceToleration{{Operator: exists, Effect: resourceapi.DeviceTaintEffectNoSchedule}}, Missed, immediately},
		{"Exists is equivalent to wildcard for value", []resourceapi.DeviceToleration{{Key: "example.com/hot", Operator: exists, Effect: noExecute}}, Kept, never},
		{"Equal is for the same value", []resourceapi.DeviceToleration{{Key: "example.com/hot", Operator: equal, Value: "yes", Effect: noExecute}}, Kept, never},
		{"Equal is not for another value", []resourceapi.DeviceToleration{{Key: "example.com/hot", Operator: equal, Value: "no", Effect: noExecute}}, Missed, immediately},
		{"the operator defaults to Equal", []resourceapi.DeviceToleration{{Key: "example.com/hot"}}, Missed, immediately},
		{"another key", []resourceapi.DeviceToleration{{Key: "example.com/cold", Operator: exists}}, Missed, immediately},
		{"by default it tolerates the taint forever", []resourceapi.DeviceToleration{{Key: "example.com/hot", Value: "yes", Effect: noExecute}}, Kept, never},
		{"the time when the taint was added plus the seconds", []resourceapi.DeviceToleration{timed(30)}, Missed, after30},
		{"zero evicts immediately", []resourceapi.DeviceToleration{timed(0)}, Missed, immediately},
		{"negative values are treated as 0", []resourceapi.DeviceToleration{timed(-30)}, Missed, immediately},
		{"seconds are ignored unless the effect is NoExecute", []resourceapi.DeviceToleration{{Key: "example.com/hot", Operator: exists, TolerationSeconds: new(int64(1))}}, Kept, never},
		{"the text does not say which of several seconds counts", []resourceapi.DeviceToleration{timed(30), timed(60)}, Missed, map[float64]Outcome{129: Wrong, 130: Evicted, 170: Evicted, 171: Missed}},
		{"one toleration without seconds is enough", []resourceapi.DeviceToleration{timed(30), {Operator: exists, Effect: noExecute}}, Kept, never},
	} {
		t.Run(tt.text, func(t *testing.T) { expect(t, history(), pod(tt.tolerations...), tt.kept, tt.evicted) })
	}
}

// TestTaints has a history for each sentence of KEP-5055 about taints and rules.
func TestTaints(t *testing.T) {
	never := map[float64]Outcome{50: Wrong, 105: Wrong, 500: Wrong}
	immediately := map[float64]Outcome{99: Wrong, 101: Evicted, 111: Evicted, 112: Missed}
	removed := func(at float64) func(*Standing) { return func(s *Standing) { s.End = moment(at) } }
	of := func(selector *resourceapi.DeviceTaintSelector) func(*Standing) {
		return func(s *Standing) { s.Selector = selector }
	}
	effect := func(e resourceapi.DeviceTaintEffect) func(*Standing) { return func(s *Standing) { s.Taint.Effect = e } }
	for _, tt := range []struct {
		text    string
		change  func(*Standing)
		kept    Outcome
		evicted map[float64]Outcome
	}{
		{"None is informational", effect(resourceapi.DeviceTaintEffectNone), Kept, never},
		{"NoSchedule allows all already-running pods to continue running", effect(resourceapi.DeviceTaintEffectNoSchedule), Kept, never},
		{"unknown effects are treated like None", effect("Other"), Kept, never},
		{"the empty selector matches all devices", of(&resourceapi.DeviceTaintSelector{}), Missed, immediately},
		{"without a selector, no devices are matched", of(nil), Kept, never},
		{"all selector criteria must be satisfied", of(&resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: new("node-1")}), Kept, never},
		{"another device", of(&resourceapi.DeviceTaintSelector{Device: new("gpu-1")}), Kept, never},
		{"a pool of any driver", of(&resourceapi.DeviceTaintSelector{Pool: new("node-0")}), Missed, immediately},
		{"removed before the deadline", removed(108), Undecided, map[float64]Outcome{99: Wrong, 102: Undecided, 114: Undecided, 115: Wrong}},
		{"removed after the deadline", removed(200), Missed, map[float64]Outcome{102: Evicted, 150: Missed, 300: Wrong}},
	} {
		t.Run(tt.text, func(t *testing.T) { expect(t, history(tt.change), pod(), tt.kept, tt.evicted) })
	}
}

func TestCumulative(t *testing.T) {
	h := history()
	second := h.Standings[0]
	second.Taint.Key, second.Begin = "example.com/cold", moment(200)
	h.Standings = append(h.Standings, second)
	p := pod(resourceapi.DeviceToleration{Key: "example.com/hot", Operator: exists})
	expect(t, h, p, Missed, map[float64]Outcome{150: Wrong, 201: Evicted, 212: Missed})
}

func TestPods(t *testing.T) {
	t.Run("removed before the seconds are over", func(t *testing.T) {
		expect(t, history(func(s *Standing) { s.End = moment(120) }), pod(timed(30)), Kept, map[float64]Outcome{101: Wrong, 130: Wrong})
	})
	t.Run("a late pod has no time left", func(t *testing.T) {
		p := pod(timed(30))
		p.Begin, p.Uses[0].Begin = moment(300), moment(301)
		expect(t, history(), p, Missed, map[float64]Outcome{299: Wrong, 302: Evicted, 313: Missed})
	})
	t.Run("released", func(t *testing.T) {
		p := pod()
		p.Uses[0].End = moment(50)
		expect(t, history(), p, Kept, map[float64]Outcome{45: Wrong, 101: Wrong})
	})
	t.Run("deleted by somebody else", func(t *testing.T) {
		p := pod()
		p.End = moment(105)
		expect(t, history(), p, Undecided, map[float64]Outcome{102: Undecided, 150: Wrong})
	})
	t.Run("twice", func(t *testing.T) {
		if got := history().Check(pod(), []time.Time{at(102), at(103)}); got.Outcome != Twice {
			t.Error(got)
		}
	})
}

// TestDisturbances: the deadline waits for a leader, and what is not observed is no reason.
func TestDisturbances(t *testing.T) {
	h := history(func(s *Standing) { s.End = moment(200) })
	h.Unled = []Span{{at(150), at(160)}, {at(105), at(125)}, {at(90), at(103)}, {at(110), at(120)}}
	expect(t, h, pod(), Missed, map[float64]Outcome{132: Evicted, 133: Evicted, 134: Missed})
	h.Stale = []Span{{at(201), at(211)}}
	h.Unled = []Span{{at(90), at(300)}}
	expect(t, h, pod(), Undecided, map[float64]Outcome{199: Undecided, 216: Undecided, 217: Wrong})
}
