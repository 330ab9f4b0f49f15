package capacity_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const driver = "gpu.example.com"

// slice returns a slice that is the whole pool of a node.
func slice(node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Devices: devices, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
}

// gpus returns n devices.
func gpus(n int, change func(*resourceapi.Device)) (all []resourceapi.Device) {
	for i := range n {
		d := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: new("A100")}}}
		if change != nil {
			change(&d)
		}
		all = append(all, d)
	}
	return all
}

func classOf(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}}
}

// holder returns a claim that holds devices of a pool.
func holder(namespace, pool string, devices ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pool + "-" + strings.Join(devices, "-")}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: pool, Device: d})
	}
	return claim
}

func node(name string, ready bool) *corev1.Node {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
}

func taint(effect resourceapi.DeviceTaintEffect) []resourceapi.DeviceTaint {
	return []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: effect}}
}

// text is a row as the tests expect it.
func text(r capacity.Row) string {
	out := ""
	for _, part := range []struct {
		name string
		n    int
	}{{"total", r.Total}, {"allocatable", r.Allocatable}, {"held", r.Held}, {"tainted", r.Tainted}, {"patched", r.PatchedAway}, {"excluded", r.Excluded}, {"unreachable", r.Unreachable}, {"unknown", r.Unknown}} {
		if part.n > 0 {
			out += fmt.Sprintf("%s %d ", part.name, part.n)
		}
	}
	if r.UpperBound {
		out += "at most "
	}
	out += "fits"
	for _, f := range r.Fits {
		mark := "≤"
		switch {
		case f.Unknown:
			mark = "?"
		case f.Exact:
			mark = ""
		}
		out += fmt.Sprintf(" %s%d", mark, f.Claims)
	}
	return out
}

func report(t *testing.T, c capacity.Cluster, scope capacity.Scope, by capacity.By) capacity.Inventory {
	t.Helper()
	r, err := c.Report(t.Context(), scope, by)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range append(r.Rows, r.Total) {
		if sum := row.Allocatable + row.Held + row.Tainted + row.PatchedAway + row.Excluded + row.Unreachable + row.Unknown; sum != row.Total {
			t.Errorf("row %q: the states have %d devices, the total is %d", row.Name, sum, row.Total)
		}
	}
	return r
}

// TestStates: each device is counted once, in the first state that applies.
func TestStates(t *testing.T) {
	tainted := gpus(4, func(d *resourceapi.Device) {
		d.Taints = map[string][]resourceapi.DeviceTaint{"gpu-0": taint("NoSchedule"), "gpu-1": taint("NoExecute"), "gpu-2": taint("None")}[d.Name]
	})
	incomplete := slice("node-3", gpus(2, nil)...)
	incomplete.Spec.Pool.ResourceSliceCount = 2
	old := slice("node-1", gpus(7, nil)...)
	old.Name, old.Spec.Pool.Generation = "old", 0
	cluster := capacity.Cluster{
		View: tracker.Merge(slice("node-1", gpus(4, nil)...), old, slice("node-2", tainted...), incomplete, slice("node-4", gpus(2, nil)...), slice("gone", gpus(1, nil)...),
			classOf("gpu", `device.driver == "gpu.example.com"`), classOf("nic", `device.driver == "nic.example.com"`)),
		Claims: []*resourceapi.ResourceClaim{holder("team-a", "node-1", "gpu-0"), holder("team-b", "node-2", "gpu-0", "gpu-3"), holder("team-a", "retired", "gpu-0")},
		Nodes:  []*corev1.Node{node("node-1", true), node("node-2", true), node("node-3", true), node("node-4", false)},
	}
	r := report(t, cluster, capacity.Scope{}, capacity.ByNode)
	if got, want := text(r.Total), "total 13 allocatable 4 held 3 tainted 1 unreachable 5 fits 4 1 0 0"; got != want {
		t.Errorf("total: %s, want %s", got, want)
	}
	if r.Unpublished != 1 || fmt.Sprint(r.Total.Reasons) != "map[NodeMissing:1 NodeNotReady:2 PoolIncomplete:2]" || fmt.Sprint(r.Total.Effects) != "map[NoExecute:1]" {
		t.Errorf("unpublished %d, reasons %v, effects %v", r.Unpublished, r.Total.Reasons, r.Total.Effects)
	}
	rows := ""
	for _, row := range r.Rows {
		rows += row.Name + ": " + text(row) + "\n"
	}
	const want = `gone: total 1 unreachable 1 fits 0 0 0 0
node-1: total 4 allocatable 3 held 1 fits 3 1 0 0
node-2: total 4 allocatable 1 held 2 tainted 1 fits 1 0 0 0
node-3: total 2 unreachable 2 fits 0 0 0 0
node-4: total 2 unreachable 2 fits 0 0 0 0
`
	if rows != want {
		t.Errorf("rows:\n%swant:\n%s", rows, want)
	}
	if got := fmt.Sprint(r.Holders); got != "[{team-b 1 2 0} {team-a 1 1 0}]" {
		t.Errorf("holders: %s", got)
	}
	if got := text(report(t, cluster, capacity.Scope{Class: "nic"}, capacity.ByDriver).Total); got != "fits 0 0 0 0" {
		t.Errorf("class nic: %s", got)
	}
	if _, err := cluster.Report(t.Context(), capacity.Scope{Class: "none"}, capacity.ByDriver); err == nil {
		t.Error("no error for a class that does not exist")
	}
	for by, names := range map[capacity.By]string{capacity.ByModel: "A100", capacity.ByPool: "gpu.example.com/gone", capacity.ByClass: "gpu", capacity.ByDriver: driver} {
		if rows := report(t, cluster, capacity.Scope{}, by).Rows; len(rows) == 0 || rows[0].Name != names {
			t.Errorf("by %s: %v", by, rows)
		}
	}
}

// TestPartialView: a device that a claim could hold which is not read is never free.
func TestPartialView(t *testing.T) {
	cluster := capacity.Cluster{View: tracker.Merge(slice("node-1", gpus(4, nil)...)), Claims: []*resourceapi.ResourceClaim{holder("team-a", "node-1", "gpu-0")}, Partial: true}
	r := report(t, cluster, capacity.Scope{}, capacity.ByDriver)
	if got, want := text(r.Total), "total 4 held 1 unknown 3 fits ?0 ?0 ?0 ?0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !r.Partial || !strings.Contains(strings.Join(r.Notes, "\n"), "partial view") {
		t.Errorf("notes: %q", r.Notes)
	}
}

// TestPatchedAway: a device that a patch takes out of its class is counted.
func TestPatchedAway(t *testing.T) {
	patch := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}, Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
		Filter:     &v1alpha1.DevicePatchFilter{Driver: new(driver), Pool: new("node-1"), Device: new("gpu-1")},
		Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{driver + "/model": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: new("T4")}}}}}}
	cluster := capacity.Cluster{View: tracker.Merge(slice("node-1", gpus(3, nil)...), patch, classOf("a100", `device.attributes["gpu.example.com"].model == "A100"`)), Patched: true}
	for _, scope := range []capacity.Scope{{}, {Class: "a100"}} {
		if got, want := text(report(t, cluster, scope, capacity.ByDriver).Total), "total 3 allocatable 2 patched 1 fits 2 1 0 0"; got != want {
			t.Errorf("%v: %s, want %s", scope, got, want)
		}
	}
	cluster.Patched = false // the stock scheduler does not read patches
	if got, want := text(report(t, cluster, capacity.Scope{Class: "a100"}, capacity.ByDriver).Total), "total 3 allocatable 3 fits 3 1 0 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestShares: what is left of a shared device is counted in shares of default size.
func TestShares(t *testing.T) {
	shared := gpus(2, func(d *resourceapi.Device) {
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: new(resource.MustParse("20Gi"))}}}
	})
	claim := holder("team-a", "node-1", "gpu-0")
	claim.Status.Allocation.Devices.Results[0].ShareID = new(types.UID("1"))
	claim.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("30Gi")}
	cluster := capacity.Cluster{View: tracker.Merge(slice("node-1", shared...)), Claims: []*resourceapi.ResourceClaim{claim}}
	r := report(t, cluster, capacity.Scope{}, capacity.ByDriver)
	if got, want := text(r.Total), "total 2 allocatable 2 fits 6 ≤2 0 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s := r.Total.Shares; s == nil || s.Held != 1 || s.Room != 6 {
		t.Errorf("shares: %+v", s)
	}
	claim.Status.Allocation.Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("70Gi")
	if got, want := text(report(t, cluster, capacity.Scope{}, capacity.ByDriver).Total), "total 2 allocatable 2 fits 4 0 0 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	claim.Status.Allocation.Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("30Gi")
	cluster.Gates = gates.Defaults(0)
	cluster.Gates.Features.ConsumableCapacity = false // a share takes the device
	if got, want := text(report(t, cluster, capacity.Scope{}, capacity.ByDriver).Total), "total 2 allocatable 1 held 1 fits 1 0 0 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
