package deviceroll

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
)

// TestContinueReplaces: a node that failed because its old driver pod was there is not done with that pod after --continue.
func TestContinueReplaces(t *testing.T) {
	for what, change := range map[string]func(*v1alpha1.DeviceRollSpec){
		"operator": func(s *v1alpha1.DeviceRollSpec) { s.DriverPods.Replace = v1alpha1.ReplaceWait },
		"claim":    asIs,
	} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t, 1, func(s *v1alpha1.DeviceRollSpec) {
				change(s)
				s.Timeouts.Driver = &metav1.Duration{Duration: time.Minute}
			})
			n := m.nodes["node-0"]
			before := n.Pods[0].UID
			if what == "claim" {
				n.consumers = 1
				m.run(100, func() bool { return len(m.drains) == 1 })
				m.tick()
				n.consumers = 0
				m.pass()
				for range 70 {
					n.consumers = 1
					m.pass()
					m.now = m.now.Add(time.Second)
				}
			} else {
				m.run(200, m.held(v1alpha1.HeldNodeFailed))
			}
			if m.node(0).State != v1alpha1.RollFailed || m.node(0).FailedIn != v1alpha1.RollReplacing {
				t.Fatalf("%+v has not failed while it waits for its pod", m.node(0))
			}
			n.consumers = 0
			m.steer(func(s *v1alpha1.DeviceRollSpec) { s.Continue++ })
			for range 120 {
				m.pass()
				m.tick()
			}
			if m.node(0).State == v1alpha1.RollDone && n.Pods[0].UID == before {
				t.Errorf("%s with the pod of before: %+v", m.node(0).State, m.node(0))
			}
		})
	}
}

// TestRests: the time outside the windows, and while paused, does not count.
func TestRests(t *testing.T) {
	for what, change := range map[string]func(*v1alpha1.DeviceRollSpec){
		"windows": func(s *v1alpha1.DeviceRollSpec) {
			s.Drain.Windows = []v1alpha1.Window{{From: "00:00", To: "00:10"}, {From: "01:00", To: "02:00"}}
		},
		"paused": asIs,
	} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t, 1, func(s *v1alpha1.DeviceRollSpec) {
				change(s)
				s.Timeouts.Drain = &metav1.Duration{Duration: 15 * time.Minute}
			})
			n := m.nodes["node-0"]
			n.consumers = 3
			m.pass()
			for range 3600 + 2 {
				m.now = m.now.Add(time.Second)
				if what == "paused" {
					m.roll.Spec.Paused = m.now.Minute() >= 10
				}
				m.pass()
			}
			if got := m.node(0); got.State != v1alpha1.RollDraining {
				t.Errorf("%s: %+v", m.now, got)
			}
		})
	}
}

// TestHalfProof: the pod of a proof is created although its claim exists.
func TestHalfProof(t *testing.T) {
	m := newModel(t, 1, proved)
	m.run(200, func() bool { return m.node(0).State == v1alpha1.RollProving && !m.nodes["node-0"].Proof.Exists })
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: roll.OwnedBy(m.roll)}}
	asked := false
	for i := range 800 {
		m.nodes["node-0"].Proof = roll.ProofState(m.roll, nil, claim)
		d := roll.Decide(m.input())
		asked = asked || len(d.Prove) > 0
		m.roll.Status = d.Status
		m.now = m.now.Add(time.Second)
		if i == 700 {
			m.steer(func(s *v1alpha1.DeviceRollSpec) { s.Continue++ })
		}
	}
	if !asked {
		t.Error("the pod is never created")
	}
}

// TestContinueFailedDrain: --continue replaces a drain that failed at its deadline.
func TestContinueFailedDrain(t *testing.T) {
	m := newModel(t, 1, asIs)
	n := m.nodes["node-0"]
	n.consumers = 3
	m.pass()
	m.pass()
	for _, d := range m.drains {
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.DrainFailed, Status: metav1.ConditionTrue, Reason: "DeadlineExceeded", Message: "3 pods left"})
		at := metav1.NewTime(m.now)
		d.Status.CompletionTime = &at
	}
	m.pass()
	if m.node(0).State != v1alpha1.RollFailed {
		t.Fatalf("%+v", m.node(0))
	}
	for range 5 {
		m.steer(func(s *v1alpha1.DeviceRollSpec) { s.Continue++ })
		for range 30 {
			m.pass()
			m.tick()
		}
	}
	if m.node(0).State == v1alpha1.RollFailed {
		t.Errorf("%+v", m.node(0))
	}
}

type orphanAPI struct {
	API
	roll    *v1alpha1.DeviceRoll
	patched []string
}

func (a *orphanAPI) GetRoll(context.Context, string) (*v1alpha1.DeviceRoll, error) {
	return a.roll, nil
}
func (a *orphanAPI) PatchNode(_ context.Context, node *corev1.Node, _ string) error {
	a.patched = append(a.patched, node.Name)
	return nil
}

// TestOrphanOfSameName: a node of a deleted roll is uncordoned although another roll has its name.
func TestOrphanOfSameName(t *testing.T) {
	nodes := cache.NewSharedIndexInformer(nil, &corev1.Node{}, 0, cache.Indexers{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-3", Annotations: map[string]string{v1alpha1.RollAnnotation: "roll"}}}
	node.Spec.Unschedulable = true
	if err := nodes.GetStore().Add(node); err != nil {
		t.Fatal(err)
	}
	api := &orphanAPI{roll: &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "roll", UID: "new"}}}
	api.roll.Status.Nodes = []v1alpha1.RollNode{{Name: "node-4", State: v1alpha1.RollDone}}
	c := &Controller{options: Options{API: api, Nodes: nodes}}
	c.orphans(t.Context(), map[string]bool{"roll": true, "roll/node-4": true})
	if len(api.patched) != 1 {
		t.Errorf("uncordoned: %v", api.patched)
	}
}

// TestUndoWaiting: a node whose drain somebody deletes, and that is continued and waits for the guard, is uncordoned when the
// roll is undone.
func TestUndoWaiting(t *testing.T) {
	m := newModel(t, 1, ofNodes)
	n := m.nodes["node-0"]
	n.works = false
	m.run(100, func() bool { return m.node(0).State == v1alpha1.RollWorking && n.Unschedulable })
	clear(m.drains)
	m.pass()
	n.consumers = 40 // the guard holds
	m.steer(func(s *v1alpha1.DeviceRollSpec) { s.Continue++ })
	m.pass()
	m.steer(func(s *v1alpha1.DeviceRollSpec) { s.Undo = true })
	for range 100 {
		m.pass()
		m.tick()
	}
	if n.Unschedulable {
		t.Errorf("undone, and cordoned by %q: %+v", n.CordonedBy, m.node(0))
	}
}

// TestPublishedBefore: what the previous driver publishes while its node is drained, while its pod waits for an operator, or
// during work on the node is no answer of the next one.
func TestPublishedBefore(t *testing.T) {
	for state, change := range map[v1alpha1.RollState]func(*v1alpha1.DeviceRollSpec){
		v1alpha1.RollDraining:  asIs,
		v1alpha1.RollReplacing: func(s *v1alpha1.DeviceRollSpec) { s.DriverPods.Replace = v1alpha1.ReplaceWait },
		v1alpha1.RollWorking:   func(s *v1alpha1.DeviceRollSpec) { s.DriverPods, s.NodeWork = nil, &v1alpha1.RollNodeWork{} },
	} {
		t.Run(string(state), func(t *testing.T) {
			m := newModel(t, 1, change)
			n := m.nodes["node-0"]
			n.consumers, n.works = 5, false
			m.run(100, func() bool { return m.node(0).State == state })
			n.generation++
			m.pass()
			n.works, n.WorkDone = true, true
			if state == v1alpha1.RollReplacing {
				n.Pods[0] = m.newPod("node-0", true)
			}
			m.run(100, func() bool {
				n.publishes = false // the new pod is ready, and publishes later
				return m.node(0).State == v1alpha1.RollPublishing
			})
			m.pass()
			m.pass()
			if got := m.node(0); got.State != v1alpha1.RollPublishing {
				t.Errorf("%s without new slices", got.State)
			}
		})
	}
}
