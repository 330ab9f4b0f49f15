package reaction_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// A world has the devices and drains of a cluster, in which a reaction is carried out.
type world struct {
	t        *testing.T
	now      time.Time
	reaction *v1alpha1.DeviceReaction
	devices  map[v1alpha1.DeviceName]bool // by whether a device is sick; without one it is not published
	drains   map[string]*v1alpha1.DeviceDrain
	pods     map[v1alpha1.DeviceName]int
	uids     int
	created  []string
	healthy  func(v1alpha1.DeviceName) bool
	// jobs and claims are those of proofs, outputs what their pods wrote; nil jobs switch proofs off.
	jobs    map[string]*batchv1.Job
	claims  map[string]*resourceapi.ResourceClaim
	outputs map[types.UID]string
	proofs  []string
	// driverPods, by node, restarts and restart are the pods of the driver.
	driverPods func(node string) *corev1.Pod
	restarts   bool
	restart    func(*corev1.Pod)
	// others are the devices of other drains, otherReactions how many of them are those of reactions.
	others         map[v1alpha1.DeviceName]string
	otherReactions int
	// prepared are the claims that drivers have prepared, refused is why pods are not deleted.
	prepared func(*corev1.Pod, string) []types.NamespacedName
	refused  map[types.UID]string
	// begun are evictions beside those of the reaction.
	begun guard.Begun
	// pin is how proofs get a device.
	pin func(v1alpha1.DeviceName, *v1alpha1.DeviceDrain) (reaction.Pin, error)
}

func device(pool string, n int) v1alpha1.DeviceName {
	return v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: pool, Device: fmt.Sprint("gpu-", n)}
}

func newWorld(t *testing.T, pools, perPool int) *world {
	w := &world{t: t, now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), devices: map[v1alpha1.DeviceName]bool{}, drains: map[string]*v1alpha1.DeviceDrain{}, pods: map[v1alpha1.DeviceName]int{}}
	w.reaction = &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: "xid", Generation: 1}, Spec: v1alpha1.DeviceReactionSpec{
		Mode: v1alpha1.ReactionAct,
		When: v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid"}, For: &metav1.Duration{Duration: 10 * time.Second}},
		End:  v1alpha1.ReactionEnd{After: &metav1.Duration{Duration: time.Minute}},
	}}
	for p := range pools {
		for n := range perPool {
			w.devices[device(fmt.Sprint("node-", p), n)] = false
		}
	}
	return w
}

func (w *world) input() reaction.Input {
	in := reaction.Input{
		Reaction: w.reaction, Now: w.now, Causes: reaction.Causes{Sick: map[v1alpha1.DeviceName]string{}}, DriverDevices: map[string]int{},
		Published: func(name v1alpha1.DeviceName) bool { _, is := w.devices[name]; return is },
		Hit: func(name v1alpha1.DeviceName) (hit guard.Hit) {
			for i := range w.pods[name] {
				hit.Pods = append(hit.Pods, guard.Pod{NamespacedName: types.NamespacedName{Namespace: "team", Name: fmt.Sprint(name, "-", i)}})
			}
			hit.Devices = []guard.Device{{Driver: name.Driver, Pool: name.Pool, Name: name.Device}}
			return hit
		},
		Window: guard.Window{Length: guard.DefaultWindow, Thresholds: guard.DefaultThresholds()},
	}
	in.Healthy, in.Restarts = w.healthy, w.restarts
	if in.DriverPodOn = w.driverPods; w.driverPods != nil {
		in.DriverPod = func(name v1alpha1.DeviceName) *corev1.Pod {
			if !in.Published(name) {
				return nil
			}
			return w.driverPods(name.Pool)
		}
	}
	in.Others, in.OtherReactions = w.others, w.otherReactions
	in.Prepared, in.RestartRefused = w.prepared, w.refused
	if w.jobs != nil {
		in.Proofs = &reaction.Proofs{Namespace: "proofs", ServiceAccount: "prover", Jobs: w.jobs, Claims: w.claims, Outputs: w.outputs, Pin: w.pin}
	}
	in.Begun = w.begun
	for name, sick := range w.devices {
		in.DriverDevices[name.Driver]++
		if sick {
			in.Sick[name] = "taint example.com/xid=79:NoSchedule of the driver"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.drains)) {
		d := w.drains[name]
		in.Drains = append(in.Drains, d)
		in.Begun = in.Begun.With([]guard.Start{{Object: name, Time: d.CreationTimestamp.Time, Hit: in.Hit(d.Spec.Devices[0])}})
	}
	return in
}

// step decides and acts, but for what comes after a number of calls, when the controller is
// killed.
func (w *world) step(calls int) reaction.Decision {
	w.t.Helper()
	d := reaction.Decide(w.input())
	if !equality.Semantic.DeepEqual(d.Status, w.reaction.Status) {
		if calls--; calls < 0 {
			return d
		}
		w.reaction = w.reaction.DeepCopy()
		w.reaction.Status = d.Status
	}
	for _, one := range d.Delete {
		if calls--; calls < 0 {
			return d
		}
		delete(w.drains, one.Drain.Name)
		w.collect()
	}
	for _, one := range append(slices.Clone(d.Pause), d.Resume...) {
		if calls--; calls < 0 {
			return d
		}
		w.drains[one.Name] = one
	}
	for _, one := range d.Create {
		if calls--; calls < 0 {
			return d
		}
		if w.drains[one.Name] != nil {
			continue // the API server refuses it
		}
		w.uids++
		one.UID, one.CreationTimestamp = types.UID(fmt.Sprint("uid-", w.uids)), metav1.NewTime(w.now)
		w.drains[one.Name] = one
		w.created = append(w.created, one.Spec.Devices[0].String())
	}
	for _, pod := range d.Restart {
		if calls--; calls < 0 {
			return d
		}
		w.restart(pod)
	}
	w.stepProofs(d, calls)
	return d
}

const whole = 1 << 20

// run lets time pass, a step each second.
func (w *world) run(d time.Duration) {
	for range int(d / time.Second) {
		w.now = w.now.Add(time.Second)
		w.step(whole)
	}
}

func (w *world) finish(name string) {
	d := w.drains[name].DeepCopy()
	at := metav1.NewTime(w.now)
	d.Status.CompletionTime = &at
	w.drains[name] = d
}

func (w *world) of(name v1alpha1.DeviceName) v1alpha1.ReactionDevice {
	for _, d := range w.reaction.Status.Devices {
		if d.DeviceName == name {
			return d
		}
	}
	return v1alpha1.ReactionDevice{}
}

func (w *world) expect(name v1alpha1.DeviceName, state v1alpha1.ReactionState) {
	w.t.Helper()
	if got := w.of(name); got.State != state {
		w.t.Fatalf("%s: %s is %q (%s), want %q; %v", w.now.Format("05:04:05"), name, got.State, got.Message, state, w.reaction.Status.Conditions)
	}
}

func (w *world) paused() string {
	c := meta.FindStatusCondition(w.reaction.Status.Conditions, v1alpha1.ReactionPaused)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// TestSickToUsedAgain: a device is drained after it has been sick for the time, keeps its cordon
// until it is acknowledged, and is left alone until it is healthy.
func TestSickToUsedAgain(t *testing.T) {
	w := newWorld(t, 2, 8)
	sick := device("node-0", 3)
	w.devices[sick] = true
	w.run(9 * time.Second)
	w.expect(sick, v1alpha1.ReactionSick)
	w.run(3 * time.Second)
	w.expect(sick, v1alpha1.ReactionDraining)
	if len(w.drains) != 1 {
		t.Fatalf("%d drains", len(w.drains))
	}
	name := w.of(sick).Drain
	if d := w.drains[name]; d.Annotations[v1alpha1.OwnerAnnotation] != "DeviceReaction/xid" || !strings.Contains(d.Annotations[v1alpha1.ReasonAnnotation], "xid=79") || d.Labels[v1alpha1.ReactionLabel] != "xid" {
		t.Errorf("%+v", d.ObjectMeta)
	}
	w.finish(name)
	w.devices[sick] = false
	w.run(time.Hour)
	w.expect(sick, v1alpha1.ReactionDrained)
	w.devices[sick] = true
	w.run(time.Second)
	w.drains[name].Annotations[v1alpha1.AcknowledgedAnnotation] = "replaced, ticket 7"
	w.run(time.Hour)
	w.expect(sick, v1alpha1.ReactionAcknowledged)
	if len(w.drains) != 0 || w.of(sick).Message != "acknowledged: replaced, ticket 7" {
		t.Errorf("%d drains, %q", len(w.drains), w.of(sick).Message)
	}
	w.devices[sick] = false
	w.run(2 * time.Minute)
	w.expect(sick, v1alpha1.ReactionHealthy)
	w.devices[sick] = true
	w.run(20 * time.Second)
	w.expect(sick, v1alpha1.ReactionDraining)
	if len(w.created) != 2 {
		t.Errorf("created %v", w.created)
	}
}

// TestWhenHealthy: the cordon is lifted when the cause has been gone for the time, and not
// before.
func TestWhenHealthy(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	sick := device("node-0", 3)
	w.devices[sick] = true
	w.run(15 * time.Second)
	w.devices[sick] = false
	w.run(58 * time.Second)
	w.expect(sick, v1alpha1.ReactionDraining)
	delete(w.devices, sick) // the driver restarts: neither sick nor healthy
	w.run(time.Second)
	w.devices[sick] = true
	w.run(time.Second)
	w.devices[sick] = false
	w.run(58 * time.Second)
	w.expect(sick, v1alpha1.ReactionDraining)
	w.run(5 * time.Second)
	w.expect(sick, v1alpha1.ReactionHealthy)
	if len(w.drains) != 0 {
		t.Errorf("%d drains", len(w.drains))
	}
	w.run(time.Hour + time.Minute)
	if len(w.reaction.Status.Devices) != 0 {
		t.Errorf("%v", w.reaction.Status.Devices)
	}
}

// TestStorm: four of eight devices within a second pause the reaction before any drain begins; an
// acknowledgement drains them one after the other.
func TestStorm(t *testing.T) {
	w := newWorld(t, 10, 8)
	for n := range 4 {
		w.devices[device("node-0", n)] = true
	}
	w.run(10 * time.Minute)
	if len(w.created) != 0 || w.paused() != v1alpha1.PausedBrake {
		t.Fatalf("created %v, paused by %q", w.created, w.paused())
	}
	w.reaction.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "devices<=3"}
	w.run(time.Minute)
	if len(w.created) != 0 || w.paused() != v1alpha1.PausedBrake {
		t.Fatalf("created %v, paused by %q", w.created, w.paused())
	}
	w.reaction.Annotations[v1alpha1.AcknowledgementAnnotation] = "devices<=4"
	for n := range 4 {
		w.run(time.Minute)
		if len(w.created) != n+1 || w.paused() != "" {
			t.Fatalf("after %d: created %v, paused by %q", n, w.created, w.paused())
		}
		w.finish(w.of(device("node-0", n)).Drain)
	}
}

// TestStormPausesDrains: a storm pauses the drains that go on, once: one that a person resumes
// goes on. The end of the storm resumes the others.
func TestStormPausesDrains(t *testing.T) {
	w := newWorld(t, 10, 8)
	first, second := device("node-0", 0), device("node-1", 0)
	w.devices[first], w.devices[second] = true, true
	w.run(15 * time.Second)
	if len(w.created) != 2 {
		t.Fatal(w.created)
	}
	storm := device("node-0", 1)
	w.devices[storm] = true
	w.run(time.Second)
	for _, d := range w.drains {
		if !d.Spec.Paused {
			t.Fatalf("%s is not paused", d.Name)
		}
	}
	resumed := w.drains[w.of(first).Drain].DeepCopy()
	resumed.Spec.Paused = false
	w.drains[resumed.Name] = resumed
	w.run(time.Minute)
	if w.drains[resumed.Name].Spec.Paused || !w.drains[w.of(second).Drain].Spec.Paused {
		t.Error("the drain that a person resumed is paused again, or the other resumed")
	}
	w.devices[storm] = false
	w.run(time.Minute)
	for _, d := range w.drains {
		if d.Spec.Paused || d.Annotations[v1alpha1.PausedByAnnotation] != "" {
			t.Errorf("%s is paused", d.Name)
		}
	}
}

// TestLimits: the smallest limit counts.
func TestLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		brake  v1alpha1.ReactionBrake
		sick   []v1alpha1.DeviceName
		others int
		want   string
	}{
		"one per pool":        {sick: []v1alpha1.DeviceName{device("node-0", 0), device("node-1", 0)}},
		"two of a pool":       {sick: []v1alpha1.DeviceName{device("node-0", 0), device("node-0", 1)}, want: "2 devices in pool gpu.example.com/node-0 out of use, and the brake allows 1"},
		"two allowed":         {sick: []v1alpha1.DeviceName{device("node-0", 0), device("node-0", 1)}, brake: v1alpha1.ReactionBrake{DevicesPerPool: ptr.To[int32](2)}},
		"a tenth of a driver": {sick: []v1alpha1.DeviceName{device("node-0", 0), device("node-1", 0), device("node-2", 0), device("node-3", 0)}, want: "4 devices of driver gpu.example.com out of use, and the brake allows 3"},
		"in all":              {sick: []v1alpha1.DeviceName{device("node-0", 0), device("node-1", 0)}, brake: v1alpha1.ReactionBrake{Devices: ptr.To[int32](1)}, want: "2 devices in all out of use, and the brake allows 1"},
		"with others":         {sick: []v1alpha1.DeviceName{device("node-0", 0)}, others: 10, want: "11 devices in all out of use, and the brake allows 10"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4, 8)
			for _, name := range tt.sick {
				w.devices[name] = true
			}
			w.reaction.Spec.Brake = tt.brake
			in := w.input()
			in.OtherReactions = tt.others
			c := meta.FindStatusCondition(reaction.Decide(in).Status.Conditions, v1alpha1.ReactionPaused)
			if tt.want == "" && c.Status == metav1.ConditionTrue || tt.want != "" && !strings.HasPrefix(c.Message, tt.want) {
				t.Errorf("%s: %s", c.Status, c.Message)
			}
		})
	}
}

// TestNoWayRoundTheGuard: a drain that evicts more pods than the thresholds allow does not
// begin, by itself or with the drains of the last minutes, until that is acknowledged.
func TestNoWayRoundTheGuard(t *testing.T) {
	w := newWorld(t, 8, 8)
	w.pods[device("node-0", 0)] = 40
	w.devices[device("node-0", 0)] = true
	w.run(time.Hour)
	if len(w.created) != 0 || w.paused() != v1alpha1.PausedGuard {
		t.Fatalf("created %v, paused by %q", w.created, w.paused())
	}
	if m := meta.FindStatusCondition(w.reaction.Status.Conditions, v1alpha1.ReactionPaused).Message; !strings.Contains(m, `annotate the reaction with dra-steward.io/acknowledged-impact: "pods<=40,namespaces<=1"`) {
		t.Error(m)
	}
	w.reaction.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=40,namespaces<=1"}
	w.run(time.Second)
	if len(w.created) != 1 || w.drains[w.of(device("node-0", 0)).Drain].Annotations[v1alpha1.AcknowledgementAnnotation] == "" {
		t.Fatalf("created %v", w.created)
	}

	w = newWorld(t, 8, 8)
	for n := range 3 {
		name := device(fmt.Sprint("node-", n), 0)
		w.pods[name], w.devices[name] = 9, true
	}
	w.run(15 * time.Second)
	if len(w.created) != 2 || w.paused() != v1alpha1.PausedGuard {
		t.Fatalf("created %v, paused by %q", w.created, w.paused())
	}
	w.run(guard.DefaultWindow)
	if len(w.created) != 3 || w.paused() != "" {
		t.Errorf("after the window: created %v, paused by %q", w.created, w.paused())
	}
}

// TestSlowReaction: a drain that evicts slowly is compared with the thresholds by all its pods, as its controller does.
func TestSlowReaction(t *testing.T) {
	w := newWorld(t, 8, 8)
	w.reaction.Spec.Then.EvictionsPerMinute = ptr.To[int32](2)
	w.pods[device("node-0", 0)], w.devices[device("node-0", 0)] = 40, true
	w.run(time.Minute)
	if len(w.created) != 0 || w.paused() != v1alpha1.PausedGuard {
		t.Errorf("created %v, paused by %q", w.created, w.paused())
	}
}

// TestNightOfOthers: a drain that waits for the night counts with those that begin then.
func TestNightOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		hour int
		want string
	}{"of the same night": {22, v1alpha1.PausedGuard}, "at another time": {3, ""}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 8, 8)
			w.reaction.Spec.Then.Windows = []v1alpha1.Window{{From: "22:00", To: "23:00"}} // it is 05:06
			w.begun = func(_ string, at time.Time) (starts []guard.Start, omitted time.Time) {
				if at.Hour() == tt.hour {
					others := guard.Start{Object: "DeviceDrain others", Time: at}
					for n := range 40 {
						others.Hit.Pods = append(others.Hit.Pods, guard.Pod{NamespacedName: types.NamespacedName{Namespace: "others", Name: fmt.Sprint(n)}})
					}
					starts = append(starts, others)
				}
				return starts, omitted
			}
			w.pods[device("node-0", 0)], w.devices[device("node-0", 0)] = 1, true
			w.run(time.Minute)
			if w.paused() != tt.want || (len(w.created) == 0) != (tt.want != "") {
				t.Errorf("created %v, paused by %q, want %q", w.created, w.paused(), tt.want)
			}
		})
	}
}

// TestObserve: the mode Observe, which is the default, writes no drain and says what Act does.
func TestObserve(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.reaction.Spec.Mode = ""
	sick := device("node-0", 0)
	w.devices[sick] = true
	w.run(time.Hour)
	if len(w.created) != 0 || w.of(sick).Message != "in the mode Act, the reaction drains the device" {
		t.Errorf("created %v, %q", w.created, w.of(sick).Message)
	}
}

// TestFailedDrain: a drain that gives up at its deadline is not called drained, and no other begins
// in its pool.
func TestFailedDrain(t *testing.T) {
	w := newWorld(t, 2, 8)
	sick := device("node-0", 0)
	w.devices[sick] = true
	w.run(15 * time.Second)
	name := w.of(sick).Drain
	w.finish(name)
	w.drains[name].Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainFailed, Status: metav1.ConditionTrue, Reason: "DeadlineExceeded", Message: "2 pods are left"}}
	w.run(time.Second)
	if d := w.of(sick); d.State != v1alpha1.ReactionDraining || d.Message != "the drain has failed: 2 pods are left" {
		t.Errorf("%+v", d)
	}
	w.reaction.Spec.Mode = v1alpha1.ReactionObserve
	w.drains[name].Annotations[v1alpha1.AcknowledgedAnnotation] = "by hand"
	w.run(time.Second)
	w.expect(sick, v1alpha1.ReactionAcknowledged)
}

// TestOtherDrain: a device that another drain has gets no second one.
func TestOtherDrain(t *testing.T) {
	w := newWorld(t, 2, 8)
	sick := device("node-0", 0)
	w.devices[sick] = true
	w.run(5 * time.Second)
	w.now = w.now.Add(time.Minute)
	in := w.input()
	in.Others = map[v1alpha1.DeviceName]string{sick: "firmware"}
	if d := reaction.Decide(in); len(d.Create) != 0 || d.Status.Devices[0].Message != "DeviceDrain firmware has the device" {
		t.Errorf("%+v", d)
	}
}

// TestDeletedByHand: the drain that a person deletes does not come back while the cause stands.
func TestDeletedByHand(t *testing.T) {
	w := newWorld(t, 2, 8)
	sick := device("node-0", 0)
	w.devices[sick] = true
	w.run(15 * time.Second)
	clear(w.drains)
	w.run(time.Hour)
	w.expect(sick, v1alpha1.ReactionAcknowledged)
	if len(w.created) != 1 {
		t.Error(w.created)
	}
}

// TestFlapping: a taint that comes and goes a hundred times in ten minutes makes at most one drain,
// the status says that it flaps, and the cordon stays until it has stopped.
func TestFlapping(t *testing.T) {
	for _, period := range []time.Duration{6 * time.Second, 30 * time.Second, 150 * time.Second} {
		w := newWorld(t, 2, 8)
		w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
		sick := device("node-0", 0)
		for i := range 100 {
			w.devices[sick] = i%2 == 0
			w.run(period / 2)
		}
		flaps := meta.FindStatusCondition(w.reaction.Status.Conditions, v1alpha1.ReactionFlapping)
		if len(w.created) > 1 && period <= 2*time.Minute || flaps.Status != metav1.ConditionTrue {
			t.Errorf("%s: created %v, flapping %v", period, w.created, flaps)
		}
		w.devices[sick] = false
		w.run(3 * time.Hour)
		if len(w.drains) != 0 {
			t.Errorf("%s: the cordon stays", period)
		}
	}
}

// TestSilence: a device whose health no pod reports any more stays sick, so that it is drained though
// its pod has left, and is healthy again when a pod says so.
func TestSilence(t *testing.T) {
	w := newWorld(t, 2, 8)
	sick := device("node-0", 0)
	w.devices[sick] = true
	w.run(5 * time.Second)
	w.devices[sick] = false
	w.healthy = func(v1alpha1.DeviceName) bool { return false }
	w.run(10 * time.Second)
	w.expect(sick, v1alpha1.ReactionDraining)
	if n := w.reaction.Status.Counts.Sick; n != 1 {
		t.Errorf("%d devices are sick", n)
	}
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	w.run(time.Hour)
	w.expect(sick, v1alpha1.ReactionDraining)
	w.healthy = func(v1alpha1.DeviceName) bool { return true }
	w.run(65 * time.Second)
	w.expect(sick, v1alpha1.ReactionHealthy)
}

// TestSilentRepair: a person repairs a device that was drained, whose health no pod reports: it is drained again if the
// next pod reports it as sick. One that is still reported as sick is left alone.
func TestSilentRepair(t *testing.T) {
	for _, reported := range []bool{false, true} {
		w := newWorld(t, 2, 8)
		w.healthy = func(v1alpha1.DeviceName) bool { return false }
		sick := device("node-0", 0)
		w.devices[sick] = true
		w.run(15 * time.Second)
		w.devices[sick] = reported
		w.run(5 * time.Second)
		clear(w.drains)
		w.run(20 * time.Second)
		w.expect(sick, v1alpha1.ReactionAcknowledged)
		w.devices[sick] = true
		w.run(5 * time.Second)
		if reported {
			w.expect(sick, v1alpha1.ReactionAcknowledged)
			continue
		}
		w.expect(sick, v1alpha1.ReactionSick)
		w.run(10 * time.Second)
		w.expect(sick, v1alpha1.ReactionDraining)
	}
}

// TestGap: a drain that is not seen for a moment was not deleted: the cordon of a device that is silent stays.
func TestGap(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.healthy = func(v1alpha1.DeviceName) bool { return false }
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	sick := device("node-0", 0)
	w.devices[sick] = true
	w.run(15 * time.Second)
	w.devices[sick] = false // its pods have gone
	w.run(20 * time.Second)
	w.expect(sick, v1alpha1.ReactionDraining)
	hidden := maps.Clone(w.drains)
	clear(w.drains)
	w.run(time.Second)
	maps.Copy(w.drains, hidden)
	w.run(10 * time.Minute)
	if len(w.drains) != 1 {
		t.Errorf("%+v", w.reaction.Status.Devices)
	}
}

// TestUnknown: while it is not known which devices are sick, nothing begins and nothing ends.
func TestUnknown(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	w.devices[device("node-0", 0)] = true
	w.run(15 * time.Second)
	in := w.input()
	in.Unknown, in.Sick, in.Now = "nodes are not read yet", nil, w.now.Add(24*time.Hour)
	d := reaction.Decide(in)
	if len(d.Create)+len(d.Delete)+len(d.Pause)+len(d.Resume) != 0 || len(d.Status.Devices) != 1 {
		t.Errorf("%+v", d)
	}
}

// TestBoundedStatus: ten thousand sick devices fit into the status.
func TestBoundedStatus(t *testing.T) {
	w := newWorld(t, 1250, 8)
	for name := range w.devices {
		w.devices[name] = true
	}
	w.run(3 * time.Second)
	if s := w.reaction.Status; len(s.Devices) != v1alpha1.ReactionDevicesMax || s.Counts.Sick != 10_000 || w.paused() != v1alpha1.PausedBrake {
		t.Errorf("%d devices, %+v", len(s.Devices), s.Counts)
	}
}

// TestKills plays random worlds in which the controller is killed between any two calls. Whatever
// happens, no device has two drains, no drain begins beyond the limits, none ends while its device
// is sick, and the same comes out as without kills.
func TestKills(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		script := func(kill bool) string {
			events, kills := rand.New(rand.NewPCG(seed, 2)), random
			w := newWorld(t, 4, 8)
			w.reaction.Spec.End.Uncordon = []v1alpha1.ReactionUncordon{v1alpha1.UncordonOnAcknowledgement, v1alpha1.UncordonWhenHealthy}[seed%2]
			for range 40 {
				name := device(fmt.Sprint("node-", events.IntN(4)), events.IntN(8))
				switch events.IntN(5) {
				case 0, 1:
					w.devices[name] = true
				case 2, 3:
					w.devices[name] = false
				case 4:
					for _, drain := range slices.Sorted(maps.Keys(w.drains)) {
						w.finish(drain)
					}
				}
				for range 20 {
					w.now = w.now.Add(time.Second)
					for kill && kills.IntN(2) == 0 {
						w.step(kills.IntN(3))
						w.check(seed)
					}
					w.step(whole)
					w.check(seed)
				}
			}
			return fmt.Sprint(slices.Sorted(maps.Keys(w.drains)), w.created)
		}
		if with, without := script(true), script(false); with != without {
			t.Fatalf("seed %d: with kills\n%s\nwithout\n%s", seed, with, without)
		}
	}
}

// check tests what always holds.
func (w *world) check(seed uint64) {
	w.t.Helper()
	going := map[string]int{}
	for _, d := range w.drains {
		if d.Status.CompletionTime == nil {
			going[d.Spec.Devices[0].Pool]++
		}
	}
	for pool, n := range going {
		if n > 1 {
			w.t.Fatalf("seed %d: %d drains go on in pool %s", seed, n, pool)
		}
	}
	again := reaction.Decide(w.input())
	for _, one := range again.Delete {
		if w.devices[one.Drain.Spec.Devices[0]] {
			w.t.Fatalf("seed %d: the drain of a sick device ends", seed)
		}
	}
}
