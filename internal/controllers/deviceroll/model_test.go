package deviceroll

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/roll"
)

const driver = "gpu.example.com"

// A model is a cluster with a roll, in which a controller may be killed before any call.
type model struct {
	t      testing.TB
	roll   *v1alpha1.DeviceRoll
	nodes  map[string]*modelNode
	drains map[string]*v1alpha1.DeviceDrain
	limit  guard.Thresholds
	now    time.Time
	uids   int
	// stranded is the foresight; nil is none.
	stranded func(node string) int
	// calls counts calls, and the controller is killed before that with the number killAt; -1 never.
	calls, killAt int
	most          int
}

type modelNode struct {
	roll.Node
	consumers, devices, after int
	generation                int64
	starts, works             bool
	proof                     corev1.PodPhase
	deletions, cordons        int
	publishes                 bool
}

// newModel has nodes with four devices each; node-I has I consumers.
func newModel(t testing.TB, nodes int, change func(*v1alpha1.DeviceRollSpec)) *model {
	m := &model{t: t, nodes: map[string]*modelNode{}, drains: map[string]*v1alpha1.DeviceDrain{}, limit: guard.DefaultThresholds(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), killAt: -1}
	m.limit.Percent = 100
	m.roll = &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "roll", UID: "roll", Generation: 1}}
	m.roll.Spec = v1alpha1.DeviceRollSpec{Driver: driver, DriverPods: &v1alpha1.RollDriverPods{Namespace: "gpu", Labels: map[string]string{"app": "gpu"}}}
	change(&m.roll.Spec)
	for i := range nodes {
		n := &modelNode{consumers: i, devices: 4, after: 4, generation: 1, starts: true, works: true, proof: corev1.PodSucceeded}
		n.Ready = true
		n.Pods = []roll.Pod{m.newPod(fmt.Sprint("node-", i), true)}
		m.nodes[fmt.Sprint("node-", i)] = n
	}
	return m
}

func (m *model) uid() types.UID { m.uids++; return types.UID(fmt.Sprint("uid-", m.uids)) }

func (m *model) newPod(node string, ready bool) roll.Pod {
	return roll.Pod{NamespacedName: types.NamespacedName{Namespace: "gpu", Name: "driver-" + node}, UID: m.uid(), Ready: ready, Message: "CrashLoopBackOff"}
}

// input is what the controller reads.
func (m *model) input() roll.Input {
	in := roll.Input{Roll: m.roll.DeepCopy(), Nodes: map[string]roll.Node{}, Now: m.now, Stranded: m.stranded, Window: guard.Window{Thresholds: m.limit, Length: 10 * time.Minute}}
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[name]
		node := n.Node
		node.Pods = slices.Clone(n.Pods)
		for i := range n.devices {
			node.Devices = append(node.Devices, v1alpha1.DeviceName{Driver: driver, Pool: name, Device: fmt.Sprint("gpu-", i)})
		}
		if n.devices > 0 {
			node.Pools = []v1alpha1.RollPool{{Driver: driver, Name: name, Generation: n.generation, Devices: int32(n.devices)}}
			in.Selected = append(in.Selected, name)
		}
		for i := range n.consumers {
			node.Hit.Devices = append(node.Hit.Devices, guard.Device{Driver: driver, Pool: name, Name: fmt.Sprint("gpu-", i)})
			who := types.NamespacedName{Namespace: "team", Name: fmt.Sprintf("%s-%d", name, i)}
			node.Hit.Claims, node.Hit.Pods = append(node.Hit.Claims, who), append(node.Hit.Pods, guard.Pod{NamespacedName: who})
		}
		in.Nodes[name] = node
	}
	for _, name := range slices.Sorted(maps.Keys(m.drains)) {
		in.Drains = append(in.Drains, m.drains[name].DeepCopy())
	}
	return in
}

// call reports whether the controller lives to make the next call.
func (m *model) call() bool {
	m.calls++
	return m.calls-1 != m.killAt
}

// pass is one step of the controller, which may be killed in it.
func (m *model) pass() {
	in := m.input()
	d := roll.Decide(in)
	if !m.call() {
		return
	}
	m.roll.Status = *d.Status.DeepCopy()
	if in := int(d.Status.Counts.InWork); in > m.most {
		m.most = in
	}
	for _, act := range m.acts(d) {
		if !m.call() {
			return
		}
		act()
	}
}

// acts are the calls of a decision, in the order of the controller.
func (m *model) acts(d roll.Decision) (all []func()) {
	for _, drain := range d.Create {
		all = append(all, func() {
			if m.drains[drain.Name] == nil {
				made := drain.DeepCopy()
				made.UID, made.CreationTimestamp = m.uid(), metav1.NewTime(m.now)
				m.drains[made.Name] = made
			}
		})
	}
	for _, drain := range d.Update {
		all = append(all, func() { m.drains[drain.Name] = drain.DeepCopy() })
	}
	for _, name := range d.Cordon {
		all = append(all, func() { n := m.nodes[name]; n.Unschedulable, n.CordonedBy = true, "roll"; n.cordons++ })
	}
	for _, pod := range d.DeletePods {
		all = append(all, func() { m.deletePod(pod) })
	}
	for _, name := range d.Prove {
		all = append(all, func() { m.nodes[name].Proof = roll.Proof{Exists: true, UID: m.uid(), Phase: corev1.PodRunning} })
	}
	for _, name := range d.Clear {
		all = append(all, func() { m.nodes[name].Proof = roll.Proof{} })
	}
	for _, name := range d.Uncordon {
		all = append(all, func() { n := m.nodes[name]; n.Unschedulable, n.CordonedBy = false, "" })
	}
	for _, drain := range d.Delete {
		all = append(all, func() { delete(m.drains, drain.Name) })
	}
	return all
}

// deletePod is where the order is checked: no consumer may be left, and none may come.
func (m *model) deletePod(pod roll.Pod) {
	for name, n := range m.nodes {
		for i := range n.Pods {
			if n.Pods[i].UID != pod.UID || n.Pods[i].Deleting {
				continue
			}
			if n.consumers > 0 || m.drains[roll.DrainName("roll", name)] == nil {
				m.t.Errorf("the driver of %s ends before its %d consumers, or without a cordon", name, n.consumers)
			}
			n.deletions++
			n.Pods[i].Deleting = true
		}
	}
}

// tick is what the rest of the cluster does in a second.
func (m *model) tick() {
	m.now = m.now.Add(time.Second)
	for name, n := range m.nodes {
		if d := m.drains[roll.DrainName("roll", name)]; d != nil {
			if !d.Spec.Paused {
				n.consumers = max(n.consumers-1, 0)
			}
			if n.consumers == 0 {
				meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.DrainDrained, Status: metav1.ConditionTrue, Reason: "Drained"})
				d.Status.CompletionTime = ptr.To(metav1.NewTime(m.now))
			}
		}
		if n.publishes {
			n.devices, n.publishes = n.after, false
			n.generation++
		}
		for i := range n.Pods {
			if n.Pods[i].Deleting {
				n.Pods[i] = m.newPod(name, n.starts)
				n.publishes = n.starts
			}
		}
		n.WorkDone = n.works && n.Unschedulable
		if n.Proof.Exists {
			n.Proof.Phase = n.proof
		}
	}
}

// run goes on until the roll has completed or is held, at most for a time.
func (m *model) run(most int, until func() bool) {
	m.t.Helper()
	for range most {
		m.pass()
		if until() {
			return
		}
		m.tick()
	}
	m.t.Fatalf("kill %d: after %d s: %+v", m.killAt, most, m.roll.Status)
}

func (m *model) completed() bool { return m.roll.Status.CompletionTime != nil }

func (m *model) held(reason string) func() bool {
	return func() bool {
		held := meta.FindStatusCondition(m.roll.Status.Conditions, v1alpha1.RollHeld)
		return held != nil && held.Status == metav1.ConditionTrue && held.Reason == reason
	}
}

func (m *model) node(i int) *v1alpha1.RollNode {
	for k := range m.roll.Status.Nodes {
		if n := &m.roll.Status.Nodes[k]; n.Name == fmt.Sprint("node-", i) {
			return n
		}
	}
	m.t.Fatalf("no node-%d in %+v", i, m.roll.Status)
	return nil
}

// steer changes the spec as a person does.
func (m *model) steer(change func(*v1alpha1.DeviceRollSpec)) {
	change(&m.roll.Spec)
	m.roll.Generation++
}

// clean fails if the roll has left something behind.
func (m *model) clean() {
	m.t.Helper()
	for name, n := range m.nodes {
		if n.Unschedulable || n.Proof.Exists {
			m.t.Errorf("kill %d: %s is left cordoned or with a proof", m.killAt, name)
		}
	}
	if len(m.drains) > 0 {
		m.t.Errorf("kill %d: %d drains are left", m.killAt, len(m.drains))
	}
}
