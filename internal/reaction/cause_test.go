package reaction_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func pool(node string, devices int, tainted ...int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	slice.Spec.Driver, slice.Spec.NodeName = "gpu.example.com", &node
	slice.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
	for n := range devices {
		d := resourceapi.Device{Name: fmt.Sprint("gpu-", n), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"index": {IntValue: ptr.To(int64(n))}}}
		if slices.Contains(tainted, n) {
			d.Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	return slice
}

func rule(name, owner, device string) *resourceapi.DeviceTaintRule {
	r := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if owner != "" {
		r.Labels, r.Annotations = map[string]string{drain.DrainLabel: owner}, map[string]string{drain.UIDAnnotation: "uid"}
	}
	r.Spec = resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com"), Pool: ptr.To("node-1"), Device: &device},
		Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNone}}
	return r
}

// bindingClaim has a device that waits for a binding condition; failed is the status of the condition
// that says that it failed.
func bindingClaim(failed metav1.ConditionStatus) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "fabric"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: "gpu.example.com", Pool: "node-0", Device: "gpu-3", BindingConditions: []string{"example.com/attached"}, BindingFailureConditions: []string{"example.com/failed"}}}}}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "node-0", Device: "gpu-3",
		Conditions: []metav1.Condition{{Type: "example.com/failed", Status: failed, Message: "no\nlink"}}}}
	return claim
}

// TestBindingFailures: a failed condition of a device is found, with one line of its message.
func TestBindingFailures(t *testing.T) {
	now := time.Now()
	failures := reaction.BindingFailures(bindingClaim("True"), now)
	if len(failures) != 1 || failures[0].Text != "binding condition example.com/failed of claim ml/fabric failed: no link" || failures[0].At != now {
		t.Errorf("%+v", failures)
	}
	if failures := reaction.BindingFailures(bindingClaim("False"), now); len(failures) != 0 {
		t.Errorf("%+v", failures)
	}
}

func TestCauses(t *testing.T) {
	view := tracker.Merge(pool("node-0", 4), pool("node-1", 4, 1, 3), rule("by-hand", "", "gpu-0"), rule("cordon", "firmware", "gpu-2"))
	nodes := func() []*corev1.Node {
		healthy := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
		sick := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		sick.Status.Conditions = []corev1.NodeCondition{{Type: "GPUsFailing", Status: "True", Reason: "FellOffTheBus", Message: "gpu-2 fell off the bus"}, {Type: "Ready", Status: "False"}}
		return []*corev1.Node{healthy, sick}
	}
	records := func() *health.Records {
		r := &health.Records{}
		for _, pool := range []string{"node-0", "gone"} {
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "a"}}
			claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: pool, Device: "gpu-1", Conditions: []metav1.Condition{{Type: "Healthy", Status: "False", Message: "ECC"}}}}
			r.AddClaim(claim)
		}
		return r
	}
	bindings := func() *reaction.Bindings {
		return &reaction.Bindings{Failed: reaction.BindingFailures(bindingClaim("True"), time.Now())}
	}
	taint := func(c v1alpha1.CauseTaint) v1alpha1.DeviceReactionSpec {
		return v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{Taint: &c}}
	}
	condition := func(c v1alpha1.CauseNodeCondition) v1alpha1.DeviceReactionSpec {
		return v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{NodeCondition: &c}}
	}
	chosen := func(spec v1alpha1.DeviceReactionSpec, expression string) v1alpha1.DeviceReactionSpec {
		spec.Selector = &v1alpha1.DrainSelector{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}
		return spec
	}
	for name, tt := range map[string]struct {
		spec v1alpha1.DeviceReactionSpec
		want string
	}{
		"of the driver":       {taint(v1alpha1.CauseTaint{Key: "example.com/xid"}), "node-1/gpu-1 node-1/gpu-3"},
		"by value and effect": {taint(v1alpha1.CauseTaint{Key: "example.com/xid", Value: ptr.To("79"), Effect: "NoSchedule", From: v1alpha1.TaintFromDriver}), "node-1/gpu-1 node-1/gpu-3"},
		"another value":       {taint(v1alpha1.CauseTaint{Key: "example.com/xid", Value: ptr.To("13")}), ""},
		"another effect":      {taint(v1alpha1.CauseTaint{Key: "example.com/xid", Effect: "NoExecute"}), ""},
		"not of a rule":       {taint(v1alpha1.CauseTaint{Key: "example.com/xid", From: v1alpha1.TaintFromRule}), ""},
		"of a rule":           {taint(v1alpha1.CauseTaint{Key: "example.com/broken"}), "node-1/gpu-0"},
		"not of the driver":   {taint(v1alpha1.CauseTaint{Key: "example.com/broken", From: v1alpha1.TaintFromDriver}), ""},
		"a node":              {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Reason: "FellOffTheBus"}), "node-1/gpu-0 node-1/gpu-1 node-1/gpu-2 node-1/gpu-3"},
		"by its message":      {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Devices: `device.attributes["condition.dra-steward.io"].message.contains("gpu-" + string(device.attributes["gpu.example.com"].index) + " ")`}), "node-1/gpu-2"},
		"by nothing":          {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Devices: `device.attributes["condition.dra-steward.io"].reason == "Hot"`}), ""},
		"it fails":            {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Devices: `device.attributes["gpu.example.com"].uuid == "a"`}), "unknown: spec.when.nodeCondition.devices fails for"},
		"it costs too much":   {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Devices: `[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, [1,2,3,4,5,6,7,8].all(d, [1,2,3,4,5,6,7,8].all(e, [1,2,3,4,5,6,7,8].all(f, device.attributes["condition.dra-steward.io"].message.contains("fell")))))))`}), "unknown: spec.when.nodeCondition.devices"},
		"no expression":       {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Devices: `device.`}), "unknown: spec.when.nodeCondition.devices"},
		"a binding":           {v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{BindingConditions: &v1alpha1.CauseBindingConditions{}}}, "node-0/gpu-3"},
		"another binding":     {v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{BindingConditions: &v1alpha1.CauseBindingConditions{Types: []string{"example.com/slow"}}}}, ""},
		"another reason":      {condition(v1alpha1.CauseNodeCondition{Type: "GPUsFailing", Reason: "Hot"}), ""},
		"a status":            {condition(v1alpha1.CauseNodeCondition{Type: "Ready", Status: "False"}), "node-1/gpu-0 node-1/gpu-1 node-1/gpu-2 node-1/gpu-3"},
		"selected":            {chosen(taint(v1alpha1.CauseTaint{Key: "example.com/xid"}), `device.attributes["gpu.example.com"].index > 2`), "node-1/gpu-3"},
		"no cause":            {v1alpha1.DeviceReactionSpec{}, "unknown: spec.when has no cause"},
		"reported":            {v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{DeviceHealth: &v1alpha1.CauseDeviceHealth{}}}, "node-0/gpu-1"},
		"of unknown health":   {v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{DeviceHealth: &v1alpha1.CauseDeviceHealth{Status: "Unknown"}}}, ""},
		"a selector fails":    {chosen(taint(v1alpha1.CauseTaint{Key: "example.com/xid"}), `device.attributes["gpu.example.com"].absent`), "unknown: spec.selector fails for"},
		"it does not compile": {chosen(taint(v1alpha1.CauseTaint{Key: "example.com/xid"}), `device.nothing`), "unknown: spec.selector"},
	} {
		t.Run(name, func(t *testing.T) {
			found := reaction.Find(&v1alpha1.DeviceReaction{Spec: tt.spec}, reaction.Sources{View: view, Nodes: nodes, Health: records, Bindings: bindings}, &patch.Compiler{})
			var got []string
			for name := range maps.Keys(found.Sick) {
				got = append(got, name.Pool+"/"+name.Device)
			}
			slices.Sort(got)
			text := strings.Join(got, " ")
			if found.Unknown != "" {
				text = "unknown: " + found.Unknown
			}
			if text != tt.want && (tt.want == "" || !strings.HasPrefix(tt.want, "unknown") || !strings.HasPrefix(text, tt.want)) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
	if found := reaction.Find(&v1alpha1.DeviceReaction{Spec: condition(v1alpha1.CauseNodeCondition{Type: "a"})}, reaction.Sources{View: view}, &patch.Compiler{}); found.Unknown != "nodes are not read yet" {
		t.Error(found.Unknown)
	}
}

// BenchmarkCauses is the work of a pass at 5,000 nodes with 8 devices, of which ten are sick: with one
// reaction, and with 15 that look for devices with taints once, or each by itself.
func BenchmarkCauses(b *testing.B) {
	var published []any
	for n := range 5000 {
		if n%500 == 0 {
			published = append(published, pool(fmt.Sprint("node-", n), 8, 3))
		} else {
			published = append(published, pool(fmt.Sprint("node-", n), 8))
		}
	}
	view := tracker.Merge(published...)
	r := &v1alpha1.DeviceReaction{Spec: v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid"}}, Selector: &v1alpha1.DrainSelector{Driver: ptr.To("gpu.example.com")}}}
	for _, of := range []struct {
		name      string
		reactions int
		shared    bool
	}{{"one reaction", 1, false}, {"15 reactions, together", 15, true}, {"15 reactions, each by itself", 15, false}} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				from := reaction.Sources{View: view}
				if of.shared {
					from.Tainted = sync.OnceValue(func() []tracker.Device { return reaction.TaintedDevices(view) })
				}
				for range of.reactions {
					if found := reaction.Find(r, from, &patch.Compiler{}); len(found.Sick) != 10 || found.Unknown != "" {
						b.Fatal(len(found.Sick), found.Unknown)
					}
				}
			}
		})
	}
}
