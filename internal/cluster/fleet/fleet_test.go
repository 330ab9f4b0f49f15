package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

const driver = "gpu.example.com"

func slice(node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Devices: devices, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
}

func device(name string, taints ...resourceapi.DeviceTaint) resourceapi.Device {
	model := "A100"
	return resourceapi.Device{Name: name, Taints: taints, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: &model}}}
}

func claim(namespace, name, pool, device string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: driver, Pool: pool, Device: device}}}}}}
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

// input has two nodes with a device in each state.
func input() fleet.Input {
	none := resourceapi.DeviceTaint{Key: "example.com/a", Effect: resourceapi.DeviceTaintEffectNone}
	stay := resourceapi.DeviceTaint{Key: "example.com/b", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	leave := resourceapi.DeviceTaint{Key: "example.com/c", Value: "xid", Effect: resourceapi.DeviceTaintEffectNoExecute}
	broken := claim("team-a", "sick", "node-1", "gpu-4")
	broken.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: driver, Pool: "node-1", Device: "gpu-4",
		Conditions: []metav1.Condition{{Type: "Healthy", Status: metav1.ConditionFalse, Message: "fell off the bus"}}}}
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "firmware"}}
	drain.Spec.Devices = []v1alpha1.DeviceName{{Driver: driver, Pool: "node-10", Device: "gpu-0"}}
	missing := slice("node-10", device("gpu-0"))
	short := slice("node-2", device("gpu-0"))
	short.Spec.Pool.ResourceSliceCount = 2
	short.Spec.Devices[0].Attributes["numa"] = resourceapi.DeviceAttribute{IntValues: []int64{0, 1}}
	return fleet.Input{
		View:   tracker.Merge(missing, short, slice("node-1", device("gpu-0"), device("gpu-1", none), device("gpu-2", stay), device("gpu-3", leave), device("gpu-4"), device("gpu-10"))),
		Claims: []*resourceapi.ResourceClaim{claim("team-a", "one", "node-1", "gpu-0"), claim("team-b", "two", "node-1", "gpu-3"), broken},
		Nodes:  []*corev1.Node{node("node-1", "zone-b"), node("node-2", "zone-a"), node("node-10", "zone-a")}, Drains: []*v1alpha1.DeviceDrain{drain}}
}

func build(t *testing.T, in fleet.Input, before *fleet.Fleet) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Build(t.Context(), in, before)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func states(f *fleet.Fleet) (all []string) {
	for i := range f.Devices {
		d := &f.Devices[i]
		all = append(all, fmt.Sprintf("%s/%s %s %s", d.Node, d.ID.Device, d.State.Fill, d.State.Mark))
	}
	return all
}

// TestStates: each device has who has it and what is remarkable about it, in the order of people.
func TestStates(t *testing.T) {
	f := build(t, input(), nil)
	want := []string{"node-1/gpu-0 held none", "node-1/gpu-1 free none", "node-1/gpu-2 free noschedule", "node-1/gpu-3 held noexecute", "node-1/gpu-4 held sick", "node-1/gpu-10 free none",
		"node-2/gpu-0 free unreachable", "node-10/gpu-0 free draining"}
	if got := states(f); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if f.Totals.Devices != 8 || f.Totals.Held != 3 || f.Totals.Free != 5 || f.Totals.Nodes != 3 || f.Totals.Marks[fleet.Sick] != 1 {
		t.Errorf("totals: %+v", f.Totals)
	}
}

// TestPartial: a device without a visible claim is unknown if not all claims could be read,
// whatever else is known about it, and is never free.
func TestPartial(t *testing.T) {
	in := input()
	in.Partial = true
	f := build(t, in, nil)
	if f.Totals.Free != 0 || f.Totals.Unknown != 5 || !f.Partial {
		t.Errorf("totals: %+v", f.Totals)
	}
	for _, state := range states(f) {
		if strings.Contains(state, "free") {
			t.Error(state)
		}
	}
}

// TestLayout: a change of states keeps the layout and the order, a new device changes them.
func TestLayout(t *testing.T) {
	first := build(t, input(), nil)
	in := input()
	in.Claims = in.Claims[:1]
	second := build(t, in, first)
	if second.Layout != first.Layout || slices.Equal(second.Codes, first.Codes) {
		t.Errorf("layout %x, then %x; codes %s, then %s", first.Layout, second.Layout, first.Codes, second.Codes)
	}
	if fresh := build(t, in, nil); !slices.Equal(fresh.Codes, second.Codes) {
		t.Errorf("codes %s with an earlier fleet, %s without", second.Codes, fresh.Codes)
	}
	in.View = tracker.Merge(slice("node-1", device("gpu-0")))
	if third := build(t, in, second); third.Layout == second.Layout || len(third.Devices) != 1 {
		t.Errorf("%d devices, layout %x", len(third.Devices), third.Layout)
	}
}

// TestQuery: a search finds devices by each field.
func TestQuery(t *testing.T) {
	f := build(t, input(), nil)
	for text, want := range map[string]int{
		"": 8, "node-1": 7, "node:node-10": 1, "GPU-10": 1, "state:tainted": 2, "state:held -state:sick": 2, "namespace:team-a": 2, "team-b": 1, "claim:one": 1,
		"taint:example.com/c=xid": 1, "taint:noexecute": 1, "attribute:productname=a100": 8, "model:h100": 0, "attribute:numa=0,1": 1, "zone:zone-a": 2, "label:zone=zone-b": 6, "driver:nic": 0, "pool:node-2": 1, "a:b": 0,
	} {
		q, err := fleet.ParseQuery(text)
		if got := len(f.Select(q)); err != nil || got != want {
			t.Errorf("%q: %d devices, want %d: %v", text, got, want, err)
		}
	}
	for _, text := range []string{strings.Repeat("a", 2000), strings.Repeat("a ", 40)} {
		if _, err := fleet.ParseQuery(text); err == nil {
			t.Errorf("a query of %d bytes is accepted", len(text))
		}
	}
}

// TestGroup: groups are in order, each with the rows of its nodes; what has no name is last.
func TestGroup(t *testing.T) {
	in := input()
	in.Nodes = append(in.Nodes[:1:1], in.Nodes[2])
	f := build(t, in, nil)
	for by, want := range map[string]string{"zone": "zone-a:1 zone-b:1 :1", "none": ":3", "driver": driver + ":3", "namespace": "team-a:1 team-b:1 :3", "wrong": "zone-a:1 zone-b:1 :1", "model": "A100:3",
		"label:" + corev1.LabelTopologyZone: "zone-a:1 zone-b:1 :1", "pool": driver + "/node-1:1 " + driver + "/node-2:1 " + driver + "/node-10:1"} {
		var got []string
		for _, g := range f.Group(f.Select(fleet.Query{}), by) {
			got = append(got, fmt.Sprintf("%s:%d", g.Name, len(g.Rows)))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("by %s: %s, want %s", by, text, want)
		}
	}
}

// TestDetail: a device page has its values with the patch that decides, its taints with their
// sources and times, and its holders.
func TestDetail(t *testing.T) {
	in := input()
	since, until := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	name, patched := driver, "H100"
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "firmware", Annotations: map[string]string{v1alpha1.ExpiresAnnotation: until.Format(time.RFC3339), "example.com/ticket": "<b>4711"}},
		Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &name},
			Taint: resourceapi.DeviceTaint{Key: "example.com/firmware", Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: since}}}}
	patch := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "model"}}
	patch.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Driver: &name}
	patch.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{driver + "/productName": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &patched}}}
	in.View = tracker.Merge(slice("node-1", device("gpu-0")), rule, patch)
	f := build(t, in, nil)
	d, found := f.Find(usage.DeviceID{Driver: driver, Pool: "node-1", Device: "gpu-0"})
	if !found {
		t.Fatal("no device")
	}
	detail := f.Detail(d)
	if v := detail.Values[0]; v.Published != "A100" || v.Now != "H100" || v.Patch != "model" {
		t.Errorf("values: %+v", detail.Values)
	}
	if taint := detail.Taints[0]; taint.Source.Name != "firmware" || !taint.Since.Equal(since) || !taint.Until.Equal(until) || taint.Annotations[0].Value != "<b>4711" {
		t.Errorf("taints: %+v", detail.Taints)
	}
	if h := detail.Holders; len(h) != 1 || h[0].Claim != "one" || h[0].Request != "gpu" {
		t.Errorf("holders: %+v", h)
	}
}

// TestBounds: more devices than a fleet may have are counted in a note, and a drain that claims
// millions of devices ends.
func TestBounds(t *testing.T) {
	in := fleet.Input{}
	var objects []any
	for i := range fleet.MaxDevices/500 + 1 {
		var devices []resourceapi.Device
		for j := range 500 {
			devices = append(devices, resourceapi.Device{Name: fmt.Sprint("gpu-", j)})
		}
		objects = append(objects, slice(fmt.Sprint("node-", i), devices...))
	}
	in.View = tracker.Merge(objects...)
	many := make([]string, 4096)
	drain := &v1alpha1.DeviceDrain{Status: v1alpha1.DeviceDrainStatus{Devices: []v1alpha1.DrainDevices{{Pools: many, Devices: many}}}}
	in.Drains = []*v1alpha1.DeviceDrain{drain}
	f := build(t, in, nil)
	if len(f.Devices) != fleet.MaxDevices || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "leaves out 500 others") {
		t.Errorf("%d devices, notes %q", len(f.Devices), f.Notes)
	}
}

// TestSaid: the health of a device is the worst that its pods report, and that of other devices
// does not count.
func TestSaid(t *testing.T) {
	in := input()
	in.Claims[0].Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}
	pod := func(health corev1.ResourceHealthStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p", UID: "p"}}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &in.Claims[0].Name}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:gpu",
			Resources: []corev1.ResourceHealth{{ResourceID: driver + "/node-1/gpu-0", Health: health}}}}}}
		return p
	}
	f := build(t, in, nil)
	held, _ := f.Find(usage.DeviceID{Driver: driver, Pool: "node-1", Device: "gpu-0"})
	other, _ := f.Find(usage.DeviceID{Driver: driver, Pool: "node-1", Device: "gpu-3"})
	pods := []*corev1.Pod{pod(corev1.ResourceHealthStatusHealthy), pod(corev1.ResourceHealthStatusUnhealthy)}
	if record, said := held.Said(pods); !said || record.Health != corev1.ResourceHealthStatusUnhealthy || record.From != "pod team-a/p" {
		t.Errorf("%+v", record)
	}
	if record, said := held.Said(nil); said {
		t.Errorf("without pods: %+v", record)
	}
	if record, said := other.Said(pods); said {
		t.Errorf("another device: %+v", record)
	}
}
