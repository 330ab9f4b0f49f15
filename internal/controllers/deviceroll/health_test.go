package deviceroll

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
)

// crash lets the new pods of drivers crash after they were ready for up seconds, and start again after down seconds.
func (m *model) crash(up, down int) {
	for _, n := range m.nodes {
		for i := range n.Pods {
			p := &n.Pods[i]
			if n.deletions == 0 {
				continue
			}
			if p.ReadySince.IsZero() {
				p.ReadySince = m.now
			}
			switch since := m.now.Sub(p.ReadySince); {
			case since >= time.Duration(up+down)*time.Second:
				p.Ready, p.ReadySince = true, m.now
				p.Restarts++
			case since >= time.Duration(up)*time.Second:
				p.Ready = false
			}
		}
	}
}

// TestCrashLoop: a roll of a driver that crashes at intervals does not complete, and stops at the first node.
func TestCrashLoop(t *testing.T) {
	for _, up := range []int{2, 4, 29, 35, 70} {
		t.Run(fmt.Sprint(up, " s"), func(t *testing.T) {
			m := newModel(t, 3, asIs)
			for range 3000 {
				m.pass()
				if m.completed() {
					for name, n := range m.nodes {
						if !n.Pods[0].Ready || n.Pods[0].Restarts > 0 {
							t.Fatalf("completed with the driver of %s: %+v", name, n.Pods[0])
						}
					}
				}
				m.tick()
				m.crash(up, 10)
			}
			if m.completed() {
				t.Fatalf("completed: %+v", m.roll.Status)
			}
			if begun := m.roll.Status.Counts; begun.Done+begun.InWork+begun.Failed > 1 && up < 30 {
				t.Errorf("more than one node was begun: %+v", begun)
			}
		})
	}
}

// TestShortTimeout: the time in which a driver must become Ready may be shorter than that for which it must be Ready. One that
// does not become Ready fails by it.
func TestShortTimeout(t *testing.T) {
	m := newModel(t, 2, func(spec *v1alpha1.DeviceRollSpec) {
		spec.Timeouts.Driver = &metav1.Duration{Duration: 10 * time.Second}
	})
	for range 600 {
		m.pass()
		m.tick()
		m.crash(1<<30, 0)
	}
	if !m.completed() {
		t.Errorf("not completed: %+v", m.roll.Status)
	}
	m = newModel(t, 2, func(spec *v1alpha1.DeviceRollSpec) {
		spec.Timeouts.Driver = &metav1.Duration{Duration: 10 * time.Second}
	})
	m.nodes["node-0"].starts = false
	m.run(600, func() bool { return m.node(0).State == v1alpha1.RollFailed })
}

// TestIllAfterDone: a node that goes bad after it is done holds the roll, with its cause, until it is healthy.
func TestIllAfterDone(t *testing.T) {
	for cause, harm := range map[string]func(*modelNode){
		"the node is not Ready":               func(n *modelNode) { n.Ready = false },
		"is not ready: CrashLoopBackOff":      func(n *modelNode) { n.Pods[0].Ready = false },
		"no pod of the driver is on the node": func(n *modelNode) { n.Pods = nil },
		"cannot be read":                      func(n *modelNode) { n.PodsUnknown = "the pods of the driver cannot be read: timeout" },
	} {
		m := newModel(t, 2, asIs)
		m.run(300, func() bool { return m.roll.Status.Counts.Done == 1 })
		first := m.nodes["node-0"]
		was := *first
		pods := append([]roll.Pod(nil), first.Pods...)
		harm(first)
		m.run(5, m.held(v1alpha1.HeldNotReady))
		if held := meta.FindStatusCondition(m.roll.Status.Conditions, v1alpha1.RollHeld); !strings.Contains(held.Message, "node node-0 is Done, and ") || !strings.Contains(held.Message, cause) {
			t.Errorf("held: %s, want %s", held.Message, cause)
		}
		for range 200 {
			m.pass()
			m.tick()
		}
		if m.completed() {
			t.Errorf("%s: completed", cause)
		}
		*first = was
		first.Pods = pods
		m.run(300, m.completed)
	}
}

// TestUndoSaysSo: nodes are uncordoned with a driver that is down, and the status says so.
func TestUndoSaysSo(t *testing.T) {
	m := newModel(t, 2, asIs)
	m.nodes["node-0"].starts = false
	m.run(300, func() bool {
		return m.node(0).State == v1alpha1.RollReplacing && len(m.node(0).Message) > 0 && m.nodes["node-0"].deletions > 0
	})
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Undo = true })
	m.run(20, func() bool { return m.node(0).CompletionTime != nil })
	for range 5 {
		m.pass()
		m.tick()
	}
	held := meta.FindStatusCondition(m.roll.Status.Conditions, v1alpha1.RollHeld)
	if text := "the cordon is lifted, though pod gpu/driver-node-0 is not ready"; !strings.Contains(m.node(0).Message, text) || !strings.Contains(held.Message, text) {
		t.Errorf("node: %q, held: %q", m.node(0).Message, held.Message)
	}
}
