package devicedrain_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestPodsLand: the condition follows the answers, and the last one stays while there is no
// other.
func TestPodsLand(t *testing.T) {
	in := newWorld(t, 1, nil).input()
	late := &guard.Stranded{NotComputed: "it takes too long"}
	for _, tt := range []struct {
		stranded *guard.Stranded
		want     string
	}{
		{nil, ""},
		{late, "NotComputed: it is unknown whether the pods land again: it takes too long"},
		{&guard.Stranded{}, "AllLand: all pods that still have to leave land again"},
		{late, "AllLand: all pods that still have to leave land again"},
		{&guard.Stranded{Pods: 1, Names: []string{"ml/a (constraint numaNode)"}}, "Stranded: 1 pod does not land again: ml/a (constraint numaNode)"},
		{nil, "Stranded: 1 pod does not land again: ml/a (constraint numaNode)"},
		{&guard.Stranded{Pods: 5, Names: []string{"ml/a (x)", "ml/b (x)", "ml/c (x)", "ml/d (x)", "ml/e (x)"}}, "Stranded: 5 pods do not land again: ml/a (x), ml/b (x), ml/c (x) and 2 more"},
	} {
		in.Stranded = tt.stranded
		in.Drain.Status = drain.Decide(in).Status
		got := ""
		if found := meta.FindStatusCondition(in.Drain.Status.Conditions, v1alpha1.DrainPodsLand); found != nil {
			got = found.Reason + ": " + found.Message
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.stranded, got, tt.want)
		}
	}
}

func (p *plane) foresees(context.Context, *v1alpha1.DeviceDrain, []usage.DeviceID) *guard.Stranded {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.foresight == nil {
		return nil
	}
	return p.foresight()
}

// TestForesightRetries: what could not be computed is asked for again after 5 s, and seldom after that; what is known, after
// a minute.
func TestForesightRetries(t *testing.T) {
	inPlane(t, func(p *plane) {
		var asked []time.Duration
		answer := &guard.Stranded{NotComputed: "it takes too long"}
		p.do(func() {
			p.foresight = func() *guard.Stranded {
				asked = append(asked, time.Since(p.begin))
				return answer
			}
			p.pod("web", 0, "")
			p.budget("web", "web", 1)
		})
		expect := func(want ...int) {
			t.Helper()
			var got []int
			p.do(func() {
				for i := range asked[1:] {
					got = append(got, int((asked[i+1] - asked[i]).Round(time.Second).Seconds()))
				}
				asked = asked[len(asked)-1:]
			})
			if !slices.Equal(got, want) {
				t.Errorf("asked again after %v seconds, want %v", got, want)
			}
		}
		p.drain("a", 1, nil)
		p.pass(200 * time.Second)
		p.expect("a", "PodsLand=False NotComputed", "Drained=False PodsRemain")
		expect(5, 10, 20, 40, 60, 60)
		p.do(func() { answer = &guard.Stranded{} })
		p.pass(130 * time.Second)
		p.expect("a", "PodsLand=True AllLand")
		expect(60, 60)
		p.do(func() { answer = &guard.Stranded{NotComputed: "it takes too long"} })
		p.pass(70 * time.Second)
		p.expect("a", "PodsLand=True AllLand")
		expect(60, 5, 10)
	})
}
