package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A world is a cluster that changes.
type world struct {
	random *rand.Rand
	slices []*resourceapi.ResourceSlice
	rules  map[int]*resourceapi.DeviceTaintRule
	in     fleet.Input
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), rules: map[int]*resourceapi.DeviceTaintRule{}}
	for i := range 40 {
		name := fmt.Sprint("node-", i)
		w.slices = append(w.slices, slice(name, device("gpu-0"), device("gpu-1"), device("gpu-2")))
		w.in.Nodes = append(w.in.Nodes, node(name, fmt.Sprint("zone-", i%2)))
	}
	return w
}

// change makes one change.
func (w *world) change() {
	i := w.random.IntN(len(w.slices))
	name, pool := driver, fmt.Sprint("node-", i)
	at := fmt.Sprint("gpu-", w.random.IntN(3))
	switch w.random.IntN(9) {
	case 0, 1:
		one := claim("team", fmt.Sprint("claim-", w.random.IntN(30)), pool, at)
		w.in.Claims = slices.DeleteFunc(slices.Clone(w.in.Claims), func(c *resourceapi.ResourceClaim) bool { return c.Name == one.Name })
		w.in.Claims = slices.Insert(w.in.Claims, w.random.IntN(len(w.in.Claims)+1), one)
	case 2:
		if n := len(w.in.Claims); n > 0 {
			gone := w.random.IntN(n)
			w.in.Claims = slices.Delete(slices.Clone(w.in.Claims), gone, gone+1)
		}
	case 3:
		effect := []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute}[w.random.IntN(2)]
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rule-", i%4)}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &name, Pool: &pool, Device: &at}, Taint: resourceapi.DeviceTaint{Key: "example.com/a", Effect: effect}}}
		w.rules[i%4] = rule
	case 4:
		delete(w.rules, i%4)
	case 5:
		changed := w.slices[i].DeepCopy()
		changed.Spec.Pool.ResourceSliceCount = 1 + int64(w.random.IntN(2))
		changed.Spec.Pool.Generation++
		w.slices[i] = changed
	case 6:
		changed := w.in.Nodes[i].DeepCopy()
		changed.Spec.Unschedulable = w.random.IntN(2) == 0
		changed.ResourceVersion += "0"
		w.in.Nodes = slices.Clone(w.in.Nodes)
		w.in.Nodes[i] = changed
	case 7:
		drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "drain"}}
		drain.Spec.Devices = []v1alpha1.DeviceName{{Driver: driver, Pool: pool, Device: at}}
		w.in.Drains = []*v1alpha1.DeviceDrain{drain}
	case 8:
		changed := w.slices[i].DeepCopy()
		changed.Spec.Devices = []resourceapi.Device{device("gpu-0"), device("gpu-1"), device(fmt.Sprint("gpu-", 2+w.random.IntN(2)))}
		w.slices[i] = changed
	}
	if w.random.IntN(20) == 0 {
		w.in.Partial = !w.in.Partial
	}
}

// input is the cluster as it is now.
func (w *world) input() fleet.Input {
	var objects []any
	for _, s := range w.slices {
		objects = append(objects, s)
	}
	for _, rule := range w.rules {
		objects = append(objects, rule)
	}
	in := w.in
	in.View = tracker.Merge(objects...)
	return in
}

// TestUpdates: a fleet that is made of an earlier one after any change is the fleet that is made
// without it.
func TestUpdates(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(seed)
		before := build(t, w.input(), nil)
		for step := range 60 {
			w.change()
			in := w.input()
			got, want := build(t, in, before), build(t, in, nil)
			if !slices.Equal(states(got), states(want)) || got.Totals != want.Totals || got.Layout != want.Layout || string(got.Codes) != string(want.Codes) {
				t.Fatalf("seed %d, step %d:\n got %q\nwant %q", seed, step, states(got), states(want))
			}
			for i := range got.Devices {
				a, b := &got.Devices[i], &want.Devices[i]
				if a.Capacity != b.Capacity || a.Reason != b.Reason || !slices.Equal(a.Claims, b.Claims) || !slices.Equal(a.Drains, b.Drains) || len(a.Taints()) != len(b.Taints()) {
					t.Fatalf("seed %d, step %d, %s: %+v, want %+v", seed, step, a.ID, a, b)
				}
			}
			if got.Node("node-1") != in.Nodes[1] {
				t.Fatalf("seed %d, step %d: an old node", seed, step)
			}
			before = got
		}
	}
}

// TestUpdateIsFast: a change of one claim does not look at all devices again.
func TestUpdateIsFast(t *testing.T) {
	var objects []any
	in := fleet.Input{}
	for i := range 2000 {
		name := fmt.Sprint("node-", i)
		objects = append(objects, slice(name, device("gpu-0"), device("gpu-1"), device("gpu-2"), device("gpu-3")))
		in.Nodes = append(in.Nodes, node(name, "zone"))
		in.Claims = append(in.Claims, claim("team", name, name, "gpu-0"))
	}
	in.View = tracker.Merge(objects...)
	first := build(t, in, nil)
	in.Claims = slices.Clone(in.Claims)
	in.Claims[7] = claim("team", "node-7", "node-7", "gpu-1")
	all := testing.AllocsPerRun(3, func() { build(t, in, nil) })
	one := testing.AllocsPerRun(3, func() { build(t, in, first) })
	if one > all/10 {
		t.Errorf("%.0f allocations for one claim, %.0f for all devices", one, all)
	}
	if got := build(t, in, first); got.Devices[28].State.Fill != fleet.Free || got.Devices[29].State.Fill != fleet.Held {
		t.Errorf("%v", states(got)[28:32])
	}
}

// TestLayoutOfLabels: nodes with other labels have another layout: a map can be grouped by any label.
func TestLayoutOfLabels(t *testing.T) {
	in := newWorld(1).input()
	before := build(t, in, nil)
	in.Nodes = slices.Clone(in.Nodes)
	in.Nodes[3] = in.Nodes[3].DeepCopy()
	in.Nodes[3].Labels["rack"] = "r7"
	if after := build(t, in, before); after.Layout == before.Layout {
		t.Error("the layout is the same")
	}
}

// TestDiffers: a device differs by its claims, taints and drains, also if its state does not show it.
func TestDiffers(t *testing.T) {
	objects := []any{slice("node-0", device("gpu-0"), device("gpu-1"))}
	rule := func(key string) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Device: new("gpu-0")}, Taint: resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	}
	in := fleet.Input{Claims: []*resourceapi.ResourceClaim{claim("team", "a", "node-0", "gpu-0")}}
	in.View = tracker.Merge(append(objects, rule("one"))...)
	before := build(t, in, nil)
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "drain"}}
	drain.Spec.Devices = []v1alpha1.DeviceName{{Driver: driver, Pool: "node-0", Device: "gpu-0"}}
	for name, change := range map[string]func(*fleet.Input){
		"claim": func(in *fleet.Input) { in.Claims = []*resourceapi.ResourceClaim{claim("team", "b", "node-0", "gpu-0")} },
		"taint": func(in *fleet.Input) { in.View = tracker.Merge(append(objects, rule("two"))...) },
		"drain": func(in *fleet.Input) { in.Drains = []*v1alpha1.DeviceDrain{drain} },
		"": func(in *fleet.Input) {
			in.Claims = []*resourceapi.ResourceClaim{in.Claims[0].DeepCopy()}
			in.View = tracker.Merge(append(objects, rule("one"))...)
		},
	} {
		changed := in
		change(&changed)
		after := build(t, changed, before)
		if after.Differs(before, 0) != (name != "") || after.Differs(before, 1) {
			t.Errorf("%q: %t, %t", name, after.Differs(before, 0), after.Differs(before, 1))
		}
	}
}
