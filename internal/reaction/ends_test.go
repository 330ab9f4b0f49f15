package reaction_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// TestTwoReactions: of two reactions to one device, the first drains it; the second names that drain, and
// drains the device itself when the first has ended and the cause still stands.
func TestTwoReactions(t *testing.T) {
	first, second := newWorld(t, 2, 8), newWorld(t, 2, 8)
	second.reaction.Name = "ecc"
	sick := device("node-0", 3)
	first.devices[sick], second.devices[sick] = true, true
	// others are the devices that the drains of the other reaction have.
	others := func(of *world) map[v1alpha1.DeviceName]string {
		found := map[v1alpha1.DeviceName]string{}
		for name, d := range of.drains {
			found[d.Spec.Devices[0]] = name
		}
		return found
	}
	both := func(d time.Duration) {
		for range int(d / time.Second) {
			first.run(time.Second)
			second.others, second.otherReactions = others(first), len(first.drains)
			second.run(time.Second)
			first.others, first.otherReactions = others(second), len(second.drains)
		}
	}
	both(time.Minute)
	first.expect(sick, v1alpha1.ReactionDraining)
	second.expect(sick, v1alpha1.ReactionWaiting)
	if m := second.of(sick).Message; m != "DeviceDrain "+first.of(sick).Drain+" has the device" || len(second.created) != 0 {
		t.Errorf("the second: %q, created %v", m, second.created)
	}
	drain := first.drains[first.of(sick).Drain].DeepCopy()
	drain.Annotations[v1alpha1.AcknowledgedAnnotation] = "replaced"
	first.drains[drain.Name] = drain
	both(time.Minute)
	first.expect(sick, v1alpha1.ReactionAcknowledged)
	second.expect(sick, v1alpha1.ReactionDraining)
	if len(first.created) != 1 || len(second.created) != 1 || len(first.drains) != 0 || len(second.drains) != 1 {
		t.Errorf("drains %v and %v", first.created, second.created)
	}
}

// TestAwayForAnHour: a controller that was away decides by the state that it finds: a cause that stood all
// the time is drained at once, one that has come meanwhile has to stand, and the cordon of a device that
// has become healthy stays for spec.end.after from when that was seen.
func TestAwayForAnHour(t *testing.T) {
	w := newWorld(t, 4, 8)
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	w.reaction.Spec.Brake.PercentOfDriver = new(int32(50))
	before, meanwhile, healed := device("node-0", 0), device("node-1", 0), device("node-2", 0)
	w.drained(healed)
	w.devices[before] = true
	w.run(5 * time.Second)
	w.expect(before, v1alpha1.ReactionSick)
	w.devices[meanwhile], w.devices[healed] = true, false
	w.now = w.now.Add(time.Hour) // nothing looks
	w.run(2 * time.Second)
	w.expect(before, v1alpha1.ReactionDraining)
	w.expect(meanwhile, v1alpha1.ReactionSick)
	w.expect(healed, v1alpha1.ReactionDrained)
	w.run(12 * time.Second)
	w.expect(meanwhile, v1alpha1.ReactionDraining)
	w.expect(healed, v1alpha1.ReactionDrained)
	w.run(time.Minute)
	w.expect(healed, v1alpha1.ReactionHealthy)
	if len(w.drains) != 2 || len(w.created) != 3 {
		t.Errorf("drains %v, created %v", w.drains, w.created)
	}
}

// TestPoolMoves: a pool that comes back on another node has the same devices by name: the drain stays,
// no second one begins, and a device that is gone for good keeps its cordon until a user acknowledges it.
func TestPoolMoves(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	sick, gone := device("node-0", 0), device("node-1", 1)
	w.reaction.Spec.Brake.PercentOfDriver = new(int32(50))
	w.drained(sick)
	w.drained(gone)
	for n := range 8 { // the driver withdraws both pools
		delete(w.devices, device("node-0", n))
		delete(w.devices, device("node-1", n))
	}
	w.run(time.Hour)
	w.expect(sick, v1alpha1.ReactionDrained)
	for n := range 8 { // and publishes one of them from another node, with the taint
		w.devices[device("node-0", n)] = n == 0
	}
	w.run(time.Hour)
	w.expect(sick, v1alpha1.ReactionDrained)
	w.expect(gone, v1alpha1.ReactionDrained)
	if len(w.created) != 2 || len(w.drains) != 2 {
		t.Fatalf("created %v, drains %d", w.created, len(w.drains))
	}
	w.devices[sick] = false // the device that moved is healthy
	w.run(2 * time.Minute)
	w.expect(sick, v1alpha1.ReactionHealthy)
	drain := w.drains[w.of(gone).Drain].DeepCopy()
	drain.Annotations[v1alpha1.AcknowledgedAnnotation] = "taken out"
	w.drains[drain.Name] = drain
	w.run(time.Second)
	if len(w.drains) != 0 {
		t.Errorf("drains %v", w.drains)
	}
}

// TestUnknownKeepsAll: while the causes are not known, nothing begins and nothing ends, for as long as it
// takes; the status says why.
func TestUnknownKeepsAll(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	w.reaction.Spec.Brake.PercentOfDriver = new(int32(50))
	drained, waiting := device("node-0", 0), device("node-1", 0)
	w.drained(drained)
	w.devices[drained], w.devices[waiting] = false, true
	for range 3600 {
		w.now = w.now.Add(time.Second)
		in := w.input()
		in.Causes = reaction.Causes{Unknown: "nodes are not read yet"}
		d := reaction.Decide(in)
		if len(d.Create)+len(d.Delete)+len(d.Pause)+len(d.Resume) > 0 {
			t.Fatalf("%+v", d)
		}
		if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ReactionActing); c == nil || c.Status != metav1.ConditionFalse || c.Message != "nodes are not read yet" {
			t.Fatalf("%+v", d.Status.Conditions)
		}
	}
	w.run(15 * time.Second)
	w.expect(waiting, v1alpha1.ReactionDraining)
}

// TestFlappingKeepsCordon: a device that flaps keeps its cordon while it is healthy for much longer than
// spec.end.after, and its message says why; calm for an hour, or an acknowledgement, ends that.
func TestFlappingKeepsCordon(t *testing.T) {
	for _, acknowledged := range []bool{false, true} {
		w := newWorld(t, 2, 8)
		w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
		sick := device("node-0", 0)
		w.drained(sick)
		for i := range 20 {
			w.devices[sick] = i%2 == 1
			w.run(30 * time.Second)
		}
		w.devices[sick] = false
		w.run(45 * time.Minute)
		w.expect(sick, v1alpha1.ReactionDrained)
		if m := w.of(sick).Message; !strings.HasPrefix(m, "flapping: the cordon stays until it is acknowledged") || len(w.created) != 1 || len(w.drains) != 1 {
			t.Fatalf("%q, created %v, %d drains", m, w.created, len(w.drains))
		}
		if acknowledged {
			w.drains[w.of(sick).Drain].Annotations[v1alpha1.AcknowledgedAnnotation] = "the riser was loose"
			w.run(time.Second)
		} else {
			w.run(20 * time.Minute)
		}
		if len(w.drains) != 0 {
			t.Errorf("acknowledged: %t: the cordon stays", acknowledged)
		}
	}
}
