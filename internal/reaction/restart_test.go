package reaction_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A fleet has the pods of a driver, one on each node, by pool.
type fleet struct {
	pods    map[string]*corev1.Pod
	started int
}

func (f *fleet) start(pool string) {
	f.started++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: fmt.Sprint("plugin-", f.started), UID: types.UID(fmt.Sprint("plugin-", f.started))}}
	pod.Spec.NodeName = pool
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	f.pods[pool] = pod
}

// newFleet gives the world pods of its driver.
func newFleet(w *world, restarts bool) *fleet {
	f := &fleet{pods: map[string]*corev1.Pod{}}
	f.start("node-0")
	f.start("node-1")
	w.reaction.Spec.End.DriverPods = &v1alpha1.ReactionDriverPods{Namespace: "drivers", MatchLabels: map[string]string{"app": "plugin"}}
	w.driverPods = func(node string) *corev1.Pod { return f.pods[node] }
	w.restarts = restarts
	w.restart = func(pod *corev1.Pod) {
		for pool, is := range f.pods {
			if is != nil && is.UID == pod.UID {
				f.pods[pool] = nil
			}
		}
	}
	return f
}

// TestRestart: the pod of the driver is named, and deleted once for each drain, one at a time.
func TestRestart(t *testing.T) {
	w := newWorld(t, 2, 8)
	f := newFleet(w, false)
	w.reaction.Spec.Brake.PercentOfDriver = ptr.To[int32](50)
	a, b := device("node-0", 0), device("node-1", 0)
	w.drained(a)
	w.drained(b)
	if m := w.of(a).Message; m != "if the driver takes the taint back only when it restarts, restart pod drivers/plugin-1" {
		t.Error(m)
	}
	w.reaction.Spec.End.RestartDriver = true
	w.run(time.Second)
	if m := w.of(a).Message; !strings.HasPrefix(m, "restart pod drivers/plugin-1: the controller has no right") || f.started != 2 {
		t.Error(m)
	}
	w.restarts = true
	w.run(5 * time.Second)
	if f.pods["node-0"] != nil || f.pods["node-1"] == nil || w.of(b).Message != "waits until pod plugin-1 has restarted" {
		t.Fatalf("%v, %q, %q", f.pods, w.of(a).Message, w.of(b).Message)
	}
	f.start("node-0")
	w.run(3 * time.Second)
	if f.pods["node-1"] != nil || w.of(a).Message != "pod plugin-1 was restarted as plugin-3, and the cause remains" {
		t.Fatalf("%v, %q", f.pods, w.of(a).Message)
	}
	f.start("node-1")
	w.run(time.Hour)
	if f.started != 4 || f.pods["node-0"].Name != "plugin-3" || f.pods["node-1"].Name != "plugin-4" {
		t.Errorf("%v", f.pods)
	}
}

// TestRestartWithoutReplacement: a node that is deleted, and gets no pod of the driver any more, holds the restarts of
// others for ten minutes; one whose new pod is ready and does not publish the device holds none.
func TestRestartWithoutReplacement(t *testing.T) {
	for name, test := range map[string]struct {
		back func(*fleet)
		held time.Duration
	}{
		"deleted":           {func(*fleet) {}, 10 * time.Minute},
		"publishes nothing": {func(f *fleet) { f.start("node-0") }, 0},
		"is not ready": {func(f *fleet) {
			f.start("node-0")
			f.pods["node-0"].Status.Conditions = nil
		}, time.Hour},
	} {
		w := newWorld(t, 2, 8)
		f := newFleet(w, true)
		w.reaction.Spec.Brake.PercentOfDriver = ptr.To[int32](50)
		w.reaction.Spec.End.RestartDriver = true
		a, b := device("node-0", 0), device("node-1", 0)
		w.drained(a)
		w.run(5 * time.Second)
		if f.pods["node-0"] != nil {
			t.Fatal("not restarted")
		}
		for i := range 8 {
			delete(w.devices, device("node-0", i))
		}
		gone := w.now
		test.back(f)
		w.drained(b)
		for w.now.Sub(gone) < 15*time.Minute && f.pods["node-1"] != nil {
			w.run(time.Second)
		}
		held := w.now.Sub(gone)
		if is := f.pods["node-1"] != nil; is != (test.held == time.Hour) || !is && (held < test.held-10*time.Second || held > test.held+time.Minute) {
			t.Errorf("%s: held for %s, %q, %q", name, held, w.of(a).Message, w.of(b).Message)
		}
	}
}

// TestRestartKills: a controller that is killed deletes no second pod.
func TestRestartKills(t *testing.T) {
	for at := range 12 {
		w := newWorld(t, 2, 8)
		f := newFleet(w, true)
		w.reaction.Spec.End.RestartDriver = true
		sick := device("node-0", 0)
		w.devices[sick] = true
		w.run(15 * time.Second)
		w.finish(w.of(sick).Drain)
		for i := range 12 {
			w.now = w.now.Add(time.Second)
			if i <= at {
				w.step(i % 3)
			} else {
				w.step(whole)
			}
			if f.pods["node-0"] == nil {
				f.start("node-0")
			}
		}
		w.run(time.Minute)
		if f.started != 3 {
			t.Errorf("killed %d times: %d pods were started", at, f.started)
		}
	}
}

// TestRestartAfterProof: the driver restarts when the device has passed its proof, not before.
func TestRestartAfterProof(t *testing.T) {
	w, sick := newProvingWorld(t), device("node-0", 3)
	f := newFleet(w, true)
	w.reaction.Spec.End.RestartDriver = true
	w.drained(sick)
	w.run(10 * time.Second)
	if f.pods["node-0"] == nil {
		t.Fatal("the driver restarts before the proof")
	}
	w.ends(w.proof(sick).Job, "Complete", "fine")
	w.run(3 * time.Second)
	if f.pods["node-0"] != nil {
		t.Fatal("the driver does not restart")
	}
	delete(w.devices, sick)
	w.run(5 * time.Second)
	f.start("node-0")
	w.devices[sick] = false
	w.run(70 * time.Second)
	w.expect(sick, v1alpha1.ReactionHealthy)
	if len(w.proofs) != 1 {
		t.Error(w.proofs)
	}
}

// TestRestartWaits: the driver's pod stays while a claim on its node is prepared, also if one comes after
// the restart was decided, and the message names it; so it does where the deletion is refused.
func TestRestartWaits(t *testing.T) {
	w := newWorld(t, 1, 8)
	f := newFleet(w, true)
	w.reaction.Spec.End.RestartDriver = true
	var claims []types.NamespacedName
	w.prepared = func(pod *corev1.Pod, driver string) []types.NamespacedName {
		if pod.Name != "plugin-1" || driver != "gpu.example.com" {
			t.Errorf("asked for pod %s of %s", pod.Name, driver)
		}
		return claims
	}
	claims = []types.NamespacedName{{Namespace: "team", Name: "train"}, {Namespace: "team", Name: "serve"}}
	sick := device("node-0", 0)
	w.drained(sick)
	w.run(time.Hour)
	const waits = "pod drivers/plugin-1 restarts when no claim on node node-0 is prepared: 2 claims left, first team/train"
	if m := w.of(sick).Message; f.pods["node-0"] == nil || m != waits || w.of(sick).Restart != nil {
		t.Fatalf("%v, %q", f.pods, m)
	}
	refuse := w.restart
	w.restart = func(pod *corev1.Pod) { w.refused = map[types.UID]string{pod.UID: "1 claim is prepared"} }
	claims = nil
	w.run(3 * time.Second)
	if m := w.of(sick).Message; m != "pod drivers/plugin-1 does not restart: 1 claim is prepared" {
		t.Errorf("refused: %q", m)
	}
	claims, w.restart = []types.NamespacedName{{Namespace: "team", Name: "train"}, {Namespace: "team", Name: "serve"}}, refuse
	w.run(3 * time.Second)
	if m := w.of(sick).Message; f.pods["node-0"] == nil || m != waits {
		t.Errorf("a claim came later: %v, %q", f.pods, m)
	}
	claims, w.refused = nil, nil
	w.run(3 * time.Second)
	if f.pods["node-0"] != nil {
		t.Error("the driver does not restart")
	}
}

// TestRestartNotNeeded: a deletion that was refused is not tried again after the cause has gone, other devices do not wait for
// it, and it is tried again if the cause comes back.
func TestRestartNotNeeded(t *testing.T) {
	w := newWorld(t, 2, 8)
	f := newFleet(w, true)
	w.reaction.Spec.End.RestartDriver = true
	w.reaction.Spec.Brake.PercentOfDriver = ptr.To[int32](50)
	a, b := device("node-0", 0), device("node-1", 0)
	act := w.restart
	tried := map[types.UID]int{}
	w.restart = func(pod *corev1.Pod) {
		tried[pod.UID]++
		w.refused = map[types.UID]string{pod.UID: "1 claim is prepared"}
	}
	w.drained(a)
	w.drained(b)
	w.run(3 * time.Second)
	if tried["plugin-1"] == 0 || tried["plugin-2"] != 0 {
		t.Fatal(tried)
	}
	delete(w.devices, a)
	w.devices[a] = false
	w.run(time.Second)
	before := tried["plugin-1"]
	w.run(5 * time.Second)
	if tried["plugin-1"] != before || tried["plugin-2"] == 0 {
		t.Errorf("after the cause has gone: tried %v, before %d; %q", tried, before, w.of(b).Message)
	}
	w.devices[a], w.restart, w.refused = true, act, nil
	w.run(3 * time.Second)
	if f.pods["node-0"] != nil {
		t.Error("the driver does not restart when the cause is there again")
	}
}
