package deviceroll

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
)

func asIs(*v1alpha1.DeviceRollSpec) {}

func proved(spec *v1alpha1.DeviceRollSpec) {
	spec.Proof = &v1alpha1.RollProof{Namespace: "proofs", DeviceClassName: "gpu", Image: "proof:1"}
}

func ofNodes(spec *v1alpha1.DeviceRollSpec) {
	spec.DriverPods, spec.NodeWork = nil, &v1alpha1.RollNodeWork{Annotation: &v1alpha1.RollNodeAnnotation{Key: "example.com/kernel", Value: "6.12"}}
	proved(spec)
}

// TestKilled kills the controller before each of its calls, in turn: the result is the same.
func TestKilled(t *testing.T) {
	for what, change := range map[string]func(*v1alpha1.DeviceRollSpec){"driver": proved, "nodes": ofNodes} {
		t.Run(what, func(t *testing.T) {
			total := 1
			for kill := -1; kill < total; kill++ {
				m := newModel(t, 3, change)
				m.killAt = kill
				m.run(400, m.completed)
				m.run(5, func() bool { return len(m.drains) == 0 })
				m.clean()
				if m.most > 1 {
					t.Errorf("kill %d: %d nodes at a time", kill, m.most)
				}
				for name, n := range m.nodes {
					if what == "driver" && n.deletions != 1 || what == "nodes" && (n.deletions != 0 || n.cordons != 1) {
						t.Errorf("kill %d: %s: %d deletions, %d cordons", kill, name, n.deletions, n.cordons)
					}
				}
				if total = max(total, m.calls); kill < 0 {
					total = m.calls
				}
			}
			t.Logf("killed before each of %d calls", total)
		})
	}
}

// TestOrder: the node with the fewest pods is first, and no two are in work together.
func TestOrder(t *testing.T) {
	m := newModel(t, 3, asIs)
	m.nodes["node-0"].consumers, m.nodes["node-2"].consumers = 5, 0
	m.run(300, m.completed)
	a, b, c := m.node(2), m.node(1), m.node(0)
	if !a.CompletionTime.Before(b.CompletionTime) || b.StartTime.Before(a.CompletionTime) || c.StartTime.Before(b.CompletionTime) {
		t.Errorf("%+v", m.roll.Status.Nodes)
	}
}

// TestOrderByLanding: the nodes whose pods land again are first, also with more pods than others.
func TestOrderByLanding(t *testing.T) {
	m := newModel(t, 3, asIs)
	m.nodes["node-0"].consumers, m.nodes["node-1"].consumers, m.nodes["node-2"].consumers = 1, 2, 3
	asked := map[string]int{}
	m.stranded = func(node string) int {
		asked[node]++
		return map[string]int{"node-0": 1, "node-1": 1}[node]
	}
	m.run(300, m.completed)
	a, b, c := m.node(2), m.node(0), m.node(1)
	if b.StartTime.Before(a.CompletionTime) || c.StartTime.Before(b.CompletionTime) {
		t.Errorf("%+v", m.roll.Status.Nodes)
	}
	if asked["node-0"] == 0 || asked["node-1"] == 0 {
		t.Errorf("asked %v", asked)
	}
}

// TestGroups: atATime counts for each value of the label.
func TestGroups(t *testing.T) {
	m := newModel(t, 6, func(spec *v1alpha1.DeviceRollSpec) { spec.AtATime, spec.PerLabel = ptr.To[int32](2), "zone" })
	for i := range 6 {
		m.nodes[fmt.Sprint("node-", i)].Group = []string{"a", "b", "b"}[i%3]
	}
	m.pass()
	if n := m.roll.Status.Counts.InWork; n != 4 {
		t.Errorf("%d nodes are in work, want two of each zone", n)
	}
	m.run(300, m.completed)
}

// TestDriverDoesNotStart: the roll stops at the first node, and goes on after a repair.
func TestDriverDoesNotStart(t *testing.T) {
	m := newModel(t, 3, func(spec *v1alpha1.DeviceRollSpec) {
		spec.Timeouts.Driver = &metav1.Duration{Duration: time.Minute}
	})
	m.nodes["node-0"].starts = false
	m.run(200, m.held(v1alpha1.HeldNodeFailed))
	if n := m.node(0); n.State != v1alpha1.RollFailed || n.FailedIn != v1alpha1.RollReplacing || !strings.Contains(n.Message, "CrashLoopBackOff") {
		t.Errorf("%+v", n)
	}
	for range 100 {
		m.pass()
		m.tick()
	}
	if m.node(1).State != v1alpha1.RollWaiting || m.nodes["node-1"].deletions+m.nodes["node-2"].deletions != 0 || len(m.drains) != 1 {
		t.Errorf("others were touched: %+v", m.roll.Status.Nodes)
	}
	m.nodes["node-0"].starts = true
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
	m.run(300, m.completed)
	if n := m.nodes["node-0"].deletions; n != 2 {
		t.Errorf("%d pods of the driver were deleted, want the old one and the one that did not start", n)
	}
}

// TestFewerDevices: the difference is shown, the roll is held, and continuing accepts it.
func TestFewerDevices(t *testing.T) {
	m := newModel(t, 2, asIs)
	m.nodes["node-0"].after = 3
	m.run(300, m.held(v1alpha1.HeldNodeFailed))
	if n := m.node(0); n.MissingDevices != 1 || !strings.Contains(n.Message, "pool gpu.example.com/node-0 has 3 devices, and had 4") {
		t.Errorf("%+v", n)
	}
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
	m.run(300, m.completed)
	m.clean()
}

// TestCanary: the roll waits after its canary, whatever number a user continued it by before.
func TestCanary(t *testing.T) {
	m := newModel(t, 3, func(spec *v1alpha1.DeviceRollSpec) { spec.Canary, spec.AtATime = 1, ptr.To[int32](2) })
	m.run(200, m.held(v1alpha1.HeldCanary))
	if m.most > 1 || m.roll.Status.Counts.Done != 1 {
		t.Errorf("%+v", m.roll.Status.Counts)
	}
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue = 7 })
	m.run(300, m.completed)
}

// TestUndo and skip take back what is cordoned.
func TestUndo(t *testing.T) {
	for _, state := range []v1alpha1.RollState{v1alpha1.RollDraining, v1alpha1.RollWorking, v1alpha1.RollPublishing, v1alpha1.RollProving, v1alpha1.RollRestoring} {
		m := newModel(t, 2, ofNodes)
		m.nodes["node-0"].consumers = 3
		m.run(100, func() bool { return m.node(0).State == state || m.node(1).State == state })
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Undo = true })
		m.run(10, func() bool { return len(m.drains) == 0 && m.roll.Status.Counts.InWork == 0 })
		m.pass()
		m.clean()
		if !m.held(v1alpha1.HeldUndone)() {
			t.Errorf("%+v", m.roll.Status.Conditions)
		}
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Undo = false })
		m.run(200, m.completed)
	}
}

func TestSkip(t *testing.T) {
	m := newModel(t, 3, func(spec *v1alpha1.DeviceRollSpec) { spec.Timeouts.Driver = &metav1.Duration{Duration: time.Minute} })
	m.nodes["node-0"].starts = false
	m.run(200, m.held(v1alpha1.HeldNodeFailed))
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Skip = []string{"node-0"} })
	m.run(300, m.completed)
	m.clean()
	if c := m.roll.Status.Counts; c.Done != 2 || c.Skipped != 1 {
		t.Errorf("%+v", c)
	}
}

// TestUncordonedByHand: no driver ends where a user has deleted the drain, and no work is done on a
// node that was uncordoned.
func TestUncordonedByHand(t *testing.T) {
	for _, state := range []v1alpha1.RollState{v1alpha1.RollDraining, v1alpha1.RollReplacing} {
		m := newModel(t, 1, asIs)
		m.nodes["node-0"].consumers = 3
		m.run(100, func() bool { return m.node(0).DrainUID != "" && m.node(0).State == state })
		if state == v1alpha1.RollReplacing {
			m.nodes["node-0"].Pods[0].Deleting = false
		}
		deletions := m.nodes["node-0"].deletions
		clear(m.drains)
		m.pass()
		if n := m.node(0); n.State != v1alpha1.RollFailed || m.nodes["node-0"].deletions != deletions {
			t.Errorf("%s: %+v", state, n)
		}
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
		m.run(200, m.completed)
	}
	m := newModel(t, 1, ofNodes)
	m.nodes["node-0"].works = false
	m.run(100, func() bool { return m.node(0).State == v1alpha1.RollWorking })
	m.nodes["node-0"].Unschedulable = false
	m.pass()
	if n := m.node(0); n.State != v1alpha1.RollFailed || !strings.Contains(n.Message, "uncordoned") {
		t.Errorf("%+v", n)
	}
	m.nodes["node-0"].works = true
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
	m.run(200, m.completed)
	if n := m.nodes["node-0"]; n.cordons != 2 || n.Unschedulable {
		t.Errorf("the work was done on a node that was cordoned %d times: %+v", n.cordons, n)
	}
}

// TestNodeGone: a node that vanishes is left out, and its drain deleted.
func TestNodeGone(t *testing.T) {
	m := newModel(t, 2, asIs)
	m.nodes["node-0"].consumers = 1
	m.run(100, func() bool { return m.node(0).State == v1alpha1.RollDraining })
	delete(m.nodes, "node-0")
	m.run(200, m.completed)
	m.run(5, func() bool { return len(m.drains) == 0 })
	if c := m.roll.Status.Counts; c.Done != 1 || c.Skipped != 1 || m.node(0).State != v1alpha1.RollGone {
		t.Errorf("%+v", c)
	}
}

// TestGuard: the thresholds hold the roll, and an acknowledgement lets it go on.
func TestGuard(t *testing.T) {
	m := newModel(t, 2, asIs)
	m.nodes["node-0"].consumers, m.nodes["node-1"].consumers = 30, 31
	m.run(10, m.held(v1alpha1.HeldGuard))
	if len(m.drains) != 0 {
		t.Error("a drain was created")
	}
	m.roll.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=31"}
	m.run(300, m.completed)
}

// TestAtATimeIsSummed: what begins in one step is one sum for the guard.
func TestAtATimeIsSummed(t *testing.T) {
	m := newModel(t, 3, func(spec *v1alpha1.DeviceRollSpec) { spec.AtATime = ptr.To[int32](3) })
	for i := range 3 {
		m.nodes[fmt.Sprint("node-", i)].consumers = 9
	}
	m.pass()
	if len(m.drains) != 2 {
		t.Errorf("%d drains of 9 pods each, want two within the threshold of 20", len(m.drains))
	}
}

// TestPaused: a paused roll evicts nothing, and does not fail meanwhile.
func TestPaused(t *testing.T) {
	m := newModel(t, 1, func(spec *v1alpha1.DeviceRollSpec) {
		spec.Timeouts.Drain = &metav1.Duration{Duration: 10 * time.Second}
	})
	m.nodes["node-0"].consumers = 3
	m.pass()
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Paused = true })
	for range 60 {
		m.pass()
		m.tick()
	}
	if n := m.node(0); n.State != v1alpha1.RollDraining || m.nodes["node-0"].consumers == 0 {
		t.Errorf("%+v", n)
	}
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Paused = false })
	m.nodes["node-0"].consumers = 1
	m.run(100, func() bool { return m.node(0).State != v1alpha1.RollDraining })
}

// TestProofFails: the roll stops; continued, the proof runs again.
func TestProofFails(t *testing.T) {
	m := newModel(t, 1, proved)
	m.nodes["node-0"].proof = corev1.PodFailed
	m.run(200, m.held(v1alpha1.HeldNodeFailed))
	m.nodes["node-0"].proof = corev1.PodSucceeded
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
	m.run(200, m.completed)
	m.clean()
}

// TestClaimInSpiteOfCordon: a claim that gets a device in spite of the cordon, when all others have gone,
// keeps the driver in its place and the work undone, in each state before them.
func TestClaimInSpiteOfCordon(t *testing.T) {
	for what, change := range map[string]func(*v1alpha1.DeviceRollSpec){"driver": asIs, "work": ofNodes} {
		m := newModel(t, 1, change)
		n := m.nodes["node-0"]
		n.consumers, n.works = 1, false
		m.run(100, func() bool { return len(m.drains) == 1 })
		m.tick() // the last consumer goes
		n.consumers = 1
		m.pass()
		if got := m.node(0); got.State != v1alpha1.RollDraining || n.deletions != 0 {
			t.Errorf("%s: %+v", what, got)
		}
		n.consumers = 0
		m.pass()
		n.consumers = 1
		m.pass()
		if got := m.node(0); got.State == v1alpha1.RollDraining || n.deletions != 0 || !strings.Contains(got.Message, "1 claim got a device in spite of the cordon: team/node-0-0") {
			t.Errorf("%s: %+v", what, got)
		}
		n.consumers, n.works = 0, true
		m.run(200, m.completed)
	}
}

// TestWindows: no node begins while no window is open, and the roll says when one is; it comes back then.
func TestWindows(t *testing.T) {
	m := newModel(t, 2, func(spec *v1alpha1.DeviceRollSpec) {
		spec.Drain.Windows = []v1alpha1.Window{{From: "00:10", To: "01:00"}} // it is 00:00
	})
	m.pass()
	if d := roll.Decide(m.input()); len(m.drains) != 0 || !m.held(v1alpha1.HeldWindow)() || !d.Wake.Equal(m.now.Add(10*time.Minute)) {
		t.Errorf("%d drains, come back at %s, %+v", len(m.drains), d.Wake, m.roll.Status.Conditions)
	}
	for range 9 * 60 {
		m.tick()
		m.pass()
	}
	if len(m.drains) != 0 {
		t.Error("a drain was created")
	}
	m.run(300, m.completed)
}

// TestNotReady: a node that is not Ready waits, and the others go first; if none is left, the roll says so.
func TestNotReady(t *testing.T) {
	m := newModel(t, 2, asIs)
	m.nodes["node-0"].Ready = false
	m.run(200, m.held(v1alpha1.HeldNotReady))
	if m.node(0).State != v1alpha1.RollWaiting || m.node(1).State != v1alpha1.RollDone || m.nodes["node-0"].deletions != 0 {
		t.Errorf("%+v", m.roll.Status)
	}
	m.nodes["node-0"].Ready = true
	m.run(200, m.completed)
}

// TestPreviousSlices: the slices of the previous driver say nothing about the new one: a node waits for others,
// or for 35 s, after which the kubelet has removed those of a driver that is away.
func TestPreviousSlices(t *testing.T) {
	for _, publishes := range []bool{true, false} {
		m := newModel(t, 1, asIs)
		n := m.nodes["node-0"]
		m.run(100, func() bool {
			n.publishes = false // the new pod is ready, and publishes later
			return m.node(0).State == v1alpha1.RollPublishing
		})
		since := m.node(0).ReadySince.Time
		for m.now.Before(since.Add(30 * time.Second)) {
			m.now = m.now.Add(time.Second)
			m.pass()
		}
		if got := m.node(0); got.State != v1alpha1.RollPublishing || got.Message != "waits for the driver to publish its devices" {
			t.Fatalf("%+v", got)
		}
		n.publishes = publishes
		m.run(10, m.completed)
		if done := m.node(0).CompletionTime.Sub(since); publishes != (done < 35*time.Second) {
			t.Errorf("publishes: %t: done after %s", publishes, done)
		}
	}
}

// TestUnchangedSlices: a driver that publishes the same devices changes no slice. A short timeout does not
// fail its node before that is known.
func TestUnchangedSlices(t *testing.T) {
	for _, change := range []func(*v1alpha1.DeviceRollSpec){asIs, ofNodes} {
		m := newModel(t, 1, change)
		m.roll.Spec.Timeouts.Driver = &metav1.Duration{Duration: 10 * time.Second}
		m.run(100, func() bool {
			m.nodes["node-0"].publishes = false
			return m.node(0).State == v1alpha1.RollPublishing
		})
		m.run(100, m.completed)
	}
}

// TestReboot: the work on a node ends with a reboot, which takes longer than a driver may be without its
// devices. That the node is away is seen a while later; its driver has its time when it is back.
func TestReboot(t *testing.T) {
	m := newModel(t, 1, ofNodes)
	n := m.nodes["node-0"]
	m.run(100, func() bool { return m.node(0).State == v1alpha1.RollPublishing })
	for range 80 { // until the node is seen to be away, its slices are as before
		m.tick()
		m.pass()
	}
	n.Ready = false
	for range 100 {
		m.tick()
		m.pass()
		if got := m.node(0); got.State != v1alpha1.RollPublishing {
			t.Fatalf("while the node is away: %+v", got)
		}
	}
	n.Ready, n.devices = true, 0 // the kubelet removes all slices when it starts
	for range 50 {
		m.tick()
		m.pass()
	}
	if got := m.node(0); got.State != v1alpha1.RollPublishing || !strings.Contains(got.Message, "has 0 devices") {
		t.Fatalf("%+v", got)
	}
	n.devices = 4
	m.run(100, m.completed)
	m.clean()
}

// TestDeletedOnce: a pod of the driver that ends is not deleted again.
func TestDeletedOnce(t *testing.T) {
	m := newModel(t, 1, asIs)
	m.run(100, func() bool { return m.nodes["node-0"].Pods[0].Deleting })
	if d := roll.Decide(m.input()); len(d.DeletePods) != 0 {
		t.Errorf("%+v", d.DeletePods)
	}
}

// TestOthersCordon: a node that a person has cordoned stays so after the work on it.
func TestOthersCordon(t *testing.T) {
	m := newModel(t, 1, ofNodes)
	n := m.nodes["node-0"]
	n.Unschedulable = true
	m.run(200, m.completed)
	if !n.Unschedulable || n.cordons != 0 {
		t.Errorf("%+v", n)
	}
}

// TestFailedNodeEvictsNothing: the drain of a node that has failed is paused.
func TestFailedNodeEvictsNothing(t *testing.T) {
	m := newModel(t, 1, func(spec *v1alpha1.DeviceRollSpec) { spec.Timeouts.Drain = &metav1.Duration{Duration: 5 * time.Second} })
	n := m.nodes["node-0"]
	n.consumers = 20
	m.run(100, m.held(v1alpha1.HeldNodeFailed))
	left := n.consumers
	for range 30 {
		m.pass()
		m.tick()
	}
	if n.consumers < left-1 {
		t.Errorf("%d consumers are left of %d", n.consumers, left)
	}
}

// TestOperator: with Wait, the roll deletes no pod.
func TestOperator(t *testing.T) {
	m := newModel(t, 1, func(spec *v1alpha1.DeviceRollSpec) { spec.DriverPods.Replace = v1alpha1.ReplaceWait })
	m.run(100, func() bool { return m.node(0).State == v1alpha1.RollReplacing })
	for range 20 {
		m.pass()
		m.tick()
	}
	if n := m.nodes["node-0"]; n.deletions != 0 || m.node(0).State != v1alpha1.RollReplacing {
		t.Errorf("%+v", m.node(0))
	}
	m.deletePod(m.nodes["node-0"].Pods[0])
	m.run(100, m.completed)
}

// FuzzDecide: whatever happens in whatever order, nothing panics, no driver ends before its consumers,
// and a roll that is left alone after that ends.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	f.Add([]byte{1, 1, 12, 25, 38, 44, 1, 70, 9, 90, 200, 255})
	f.Fuzz(func(t *testing.T, acts []byte) {
		if len(acts) > 200 {
			return
		}
		m := newModel(t, 3, func(spec *v1alpha1.DeviceRollSpec) {
			spec.Timeouts = v1alpha1.RollTimeouts{Drain: &metav1.Duration{Duration: 20 * time.Second}, Driver: &metav1.Duration{Duration: time.Minute}}
			proved(spec)
		})
		for _, act := range acts {
			m.disturb(act)
			m.killAt = m.calls + int(act>>4) - 8
			m.pass()
			m.tick()
		}
		m.killAt = -1
		for _, n := range m.nodes {
			n.starts, n.Ready, n.proof, n.consumers = true, true, corev1.PodSucceeded, min(n.consumers, 3)
		}
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Undo, spec.Paused, spec.Skip = false, false, nil })
		for range 60 { // a user continues it each time it is held
			if m.completed() {
				break
			}
			m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
			for range 70 {
				m.pass()
				m.tick()
			}
		}
		if !m.completed() {
			t.Fatalf("%+v", m.roll.Status)
		}
	})
}

// disturb is what people and the cluster do in the middle of a roll.
func (m *model) disturb(act byte) {
	n := m.nodes[fmt.Sprint("node-", act%3)]
	switch act % 13 {
	case 1:
		n.starts = !n.starts
	case 2:
		n.Ready = !n.Ready
	case 3:
		n.after = 3 + int(act>>7)
	case 4:
		clear(m.drains)
	case 5:
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Undo = !spec.Undo })
	case 6:
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
	case 7:
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Skip = []string{fmt.Sprint("node-", act%3)} })
	case 8:
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Paused = !spec.Paused })
	case 9:
		n.proof = []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded, corev1.PodRunning}[act>>6%3]
	case 10:
		if m.drains[roll.DrainName("roll", fmt.Sprint("node-", act%3))] == nil {
			n.consumers = int(act >> 5)
		}
	case 11:
		n.devices = int(act >> 6)
	case 12:
		m.now = m.now.Add(time.Duration(act) * time.Second)
	}
}
