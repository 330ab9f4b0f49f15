package why

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const driver = "gpu.example.com"

func slice(node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
		},
	}
}

func gpus(n int) (all []resourceapi.Device) {
	for i := range n {
		model := fmt.Sprint("m", i%2)
		all = append(all, resourceapi.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}})
	}
	return all
}

func class(expressions ...string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{Selectors: cel(expressions...)}}
}

func cel(expressions ...string) (all []resourceapi.DeviceSelector) {
	for _, e := range expressions {
		all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return all
}

func claim(name string, change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	if change != nil {
		change(c)
	}
	return c
}

// holding makes a claim that has devices of a node.
func holding(name, node string, devices ...string) *resourceapi.ResourceClaim {
	return claim(name, func(c *resourceapi.ResourceClaim) {
		c.Namespace = "team-b"
		c.Status.Allocation = &resourceapi.AllocationResult{}
		for _, d := range devices {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: node, Device: d})
		}
	})
}

func request(c *resourceapi.ResourceClaim) *resourceapi.ExactDeviceRequest {
	return c.Spec.Devices.Requests[0].Exactly
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// text writes a report in a line: the verdict, and of each request its reason and those
// of its devices.
func text(r Explanation) string {
	all := []string{string(r.Verdict)}
	for _, request := range r.Requests {
		all = append(all, fmt.Sprintf("%s=%s", request.Name, request.Reason))
		reasons, devices := request.Reasons()
		for _, reason := range reasons {
			all = append(all, fmt.Sprintf("%d%s", devices[reason], reason))
		}
	}
	return strings.Join(all, " ")
}

func TestExplain(t *testing.T) {
	shared := gpus(1)
	shared[0].AllowMultipleAllocations = new(true)
	shared[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	half := gpus(2)
	old := slice("n1", gpus(1)...)
	old.Name, old.Spec.Pool.Generation = "old", 0
	incomplete := slice("n1", half...)
	incomplete.Spec.Pool.ResourceSliceCount = 2
	twice := slice("n1", append(gpus(1), gpus(1)...)...)
	setTwice := slice("n1")
	setTwice.Name, setTwice.Spec.SharedCounters = "counters", []resourceapi.CounterSet{{Name: "gpu-0"}, {Name: "gpu-0"}}
	noCounter := slice("n1", gpus(1)...)
	noCounter.Spec.Devices[0].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("1")}}}}
	everywhere := slice("n1", gpus(2)...)
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, new(true)
	perDevice := slice("n1", gpus(2)...)
	perDevice.Spec.NodeName, perDevice.Spec.PerDeviceNodeSelection = nil, new(true)
	perDevice.Spec.Devices[0].NodeName = new("n1")
	perDevice.Spec.Devices[1].NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "repair"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Device: new("gpu-0")},
		Taint:          resourceapi.DeviceTaint{Key: "example.com/repair", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	const missing = `device.attributes["gpu.example.com"].missing == "x"`
	many := func(n int64) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) { request(c).Count = n }
	}
	for name, tt := range map[string]struct {
		claim   *resourceapi.ResourceClaim
		objects []any
		claims  []*resourceapi.ResourceClaim
		nodes   []*corev1.Node
		want    string
	}{
		"fine":           {claim("c", nil), []any{class(), slice("n1", half...)}, nil, nil, "Allocatable gpu= 2"},
		"no class":       {claim("c", nil), []any{slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=ClassNotFound"},
		"class false":    {claim("c", nil), []any{class("false"), slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=NoDevice 2ClassSelector"},
		"class fails":    {claim("c", nil), []any{class(missing), slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=Count 2ClassSelectorError"},
		"request false":  {claim("c", func(c *resourceapi.ResourceClaim) { request(c).Selectors = cel("false") }), []any{class(), slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=Count 2RequestSelector"},
		"request fails":  {claim("c", func(c *resourceapi.ResourceClaim) { request(c).Selectors = cel(missing) }), []any{class(), slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=Count 2RequestSelectorError"},
		"does not parse": {claim("c", func(c *resourceapi.ResourceClaim) { request(c).Selectors = cel("device.") }), []any{class(), slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=Count 2RequestSelectorError"},
		"tainted":        {claim("c", many(2)), []any{class(), slice("n1", half...), rule}, nil, nil, "Unsatisfiable gpu=Count 1 1Tainted"},
		"tolerated": {claim("c", func(c *resourceapi.ResourceClaim) {
			many(2)(c)
			request(c).Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
		}), []any{class(), slice("n1", half...), rule}, nil, nil, "Allocatable gpu= 2"},
		"taken":           {claim("c", nil), []any{class(), slice("n1", half...)}, []*resourceapi.ResourceClaim{holding("a", "n1", "gpu-0"), holding("b", "n1", "gpu-1")}, nil, "Unsatisfiable gpu=Count 2Taken"},
		"admin":           {claim("c", func(c *resourceapi.ResourceClaim) { request(c).AdminAccess = new(true) }), []any{class(), slice("n1", half...)}, []*resourceapi.ResourceClaim{holding("a", "n1", "gpu-0", "gpu-1")}, nil, "Allocatable gpu= 2"},
		"incomplete":      {claim("c", nil), []any{class(), incomplete}, nil, nil, "Unsatisfiable gpu=Count 2PoolIncomplete"},
		"incomplete, all": {claim("c", func(c *resourceapi.ResourceClaim) { request(c).AllocationMode = resourceapi.DeviceAllocationModeAll }), []any{class(), incomplete}, nil, nil, "Unsatisfiable gpu=Count 2PoolIncomplete"},
		"a name twice":    {claim("c", nil), []any{class(), twice}, nil, nil, "Unsatisfiable gpu=Count 2PoolIncomplete"},
		"a set twice":     {claim("c", nil), []any{class(), slice("n1", half...), setTwice}, nil, nil, "Unsatisfiable gpu=Count 2PoolIncomplete"},
		"no counter":      {claim("c", nil), []any{class(), noCounter}, nil, nil, "Unsatisfiable gpu=Count 1PoolIncomplete"},
		"replaced":        {claim("c", many(2)), []any{class(), old, slice("n1", gpus(1)...)}, nil, nil, "Unsatisfiable gpu=Count 1 1PoolObsolete"},
		"other node":      {claim("c", nil), []any{class(), slice("n1", half...)}, nil, []*corev1.Node{node("n2")}, "Unsatisfiable gpu=Count 2NodeMismatch"},
		"no node":         {claim("c", nil), []any{class()}, nil, nil, "Unsatisfiable gpu=NoDevice"},
		"all nodes":       {claim("c", nil), []any{class(), everywhere}, nil, nil, "Allocatable gpu= 2"},
		"by device":       {claim("c", many(2)), []any{class(), perDevice}, nil, nil, "Unsatisfiable gpu=Count 2"},
		"count by node":   {claim("c", many(3)), []any{class(), slice("n1", half...), slice("n2", half...)}, nil, nil, "Unsatisfiable gpu=Count 4"},
		"all":             {claim("c", func(c *resourceapi.ResourceClaim) { request(c).AllocationMode = resourceapi.DeviceAllocationModeAll }), []any{class(), slice("n1", half...)}, []*resourceapi.ResourceClaim{holding("a", "n1", "gpu-0")}, nil, "Unsatisfiable gpu=Together 1 1Taken"},
		"alternatives": {claim("c", func(c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly = nil
			c.Spec.Devices.Requests[0].FirstAvailable = []resourceapi.DeviceSubRequest{
				{Name: "four", DeviceClassName: "gpu", Count: 4}, {Name: "two", DeviceClassName: "gpu", Count: 2}}
		}), []any{class(), slice("n1", half...)}, nil, nil, "Allocatable gpu/four=Count 2 gpu/two= 2"},
		"constraint": {claim("c", func(c *resourceapi.ResourceClaim) {
			many(2)(c)
			c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName("gpu.example.com/model"))}}
		}), []any{class(), slice("n1", half...)}, nil, nil, "Unsatisfiable gpu=Together 2"},
		"shared": {claim("c", func(c *resourceapi.ResourceClaim) {
			request(c).Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("20Gi")}}
		}), []any{class(), slice("n1", shared...)}, nil, nil, "Unsatisfiable gpu=Together 1"},
		"allocated": {holding("c", "n1", "gpu-0"), []any{class(), slice("n1", half...)}, nil, nil, "Allocated"},
	} {
		t.Run(name, func(t *testing.T) {
			w := Cluster{View: tracker.Merge(tt.objects...), Claims: append(tt.claims, tt.claim), Nodes: tt.nodes}
			report, err := w.Explain(t.Context(), tt.claim, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(report); got != tt.want {
				t.Errorf("got  %s\nwant %s\n%+v", got, tt.want, report)
			}
		})
	}
}

// TestIncompletePools: a scheduler before 1.35 allocates one device of a pool of which a
// slice is missing, but not all devices, and none of a pool that has a name twice.
func TestIncompletePools(t *testing.T) {
	incomplete := slice("n1", gpus(2)...)
	incomplete.Spec.Pool.ResourceSliceCount = 2
	twice := slice("n1", append(gpus(1), gpus(1)...)...)
	all := claim("c", func(c *resourceapi.ResourceClaim) { request(c).AllocationMode = resourceapi.DeviceAllocationModeAll })
	for _, tt := range []struct {
		claim *resourceapi.ResourceClaim
		slice *resourceapi.ResourceSlice
		want  string
	}{
		{claim("c", nil), incomplete, "Allocatable gpu= 2"},
		{all, incomplete, "Unsatisfiable gpu=Count 2PoolIncomplete"},
		{claim("c", nil), twice, "Unsatisfiable gpu=Count 2PoolIncomplete"},
	} {
		r, err := Cluster{View: tracker.Merge(class(), tt.slice), IncompletePools: true}.Explain(t.Context(), tt.claim, nil)
		if err != nil || text(r) != tt.want {
			t.Errorf("got %s, %v, want %s", text(r), err, tt.want)
		}
		if r.Verdict == Allocatable && r.Requests[0].Devices[0].Message != "suitable, although only 1 of 2 slices of its pool are published: kube-scheduler before 1.35 does not wait for them" {
			t.Errorf("does not say that the pool is incomplete: %q", r.Requests[0].Devices[0].Message)
		}
	}
	if incomplete.Spec.Pool.ResourceSliceCount != 2 {
		t.Error("the published slice was changed")
	}
}

// TestSharesWithoutTheGate: a claim that has a share of a device takes all of it.
func TestSharesWithoutTheGate(t *testing.T) {
	other := holding("other", "n1", "gpu-0")
	other.Status.Allocation.Devices.Results[0].ShareID = new(types.UID("share"))
	w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Claims: []*resourceapi.ResourceClaim{other}, Gates: gates.Defaults(0)}
	w.Gates.Features.ConsumableCapacity = false
	if r, err := w.Explain(t.Context(), claim("c", nil), nil); err != nil || text(r) != "Unsatisfiable gpu=Count 1Taken" {
		t.Errorf("%s, %v", text(r), err)
	}
}

// TestPod: where the pod may run counts, and what its other claims want or have.
func TestPod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p"}}
	for _, name := range []string{"a", "b"} {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
	}
	a, b := claim("a", nil), claim("b", nil)
	w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...), slice("n2", gpus(2)...)), Claims: []*resourceapi.ResourceClaim{a, b}, Nodes: []*corev1.Node{node("n1"), node("n2")}}
	ask := func() Explanation {
		t.Helper()
		r, err := w.Explain(t.Context(), a, pod)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ask(); r.Verdict != Allocatable || r.Node != "n2" {
		t.Errorf("both fit on n2 only: %+v", r)
	}
	pod.Spec.NodeName = "n1"
	if r := ask(); r.Verdict != Unsatisfiable || r.Message != "alone, it could be allocated on n1, but not together with the pod's other claims: b" {
		t.Errorf("on n1 there is one: %s %s", r.Verdict, r.Message)
	}
	pod.Spec.NodeName = ""
	has := holding("b", "n1", "gpu-0")
	has.Namespace = "team-a"
	has.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}
	w.Claims = []*resourceapi.ResourceClaim{a, has}
	if r := ask(); text(r) != "Unsatisfiable gpu=Count 2NodeMismatch 1Taken" {
		t.Errorf("b is on n1: %s", text(r))
	}
	pod.Spec.NodeSelector = map[string]string{"zone": "none"}
	if r := ask(); r.Message != "the pod cannot run on any node" {
		t.Errorf("no node: %+v", r)
	}
}

// TestDeletedClaim: a claim that is being deleted gets no devices, and keeps those that it has.
func TestDeletedClaim(t *testing.T) {
	w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Nodes: []*corev1.Node{node("n1")}}
	waiting, has := claim("train", nil), holding("train", "n1", "gpu-0")
	for _, c := range []*resourceapi.ResourceClaim{waiting, has} {
		c.DeletionTimestamp = &metav1.Time{}
	}
	if a, err := w.ExplainClaim(t.Context(), waiting, nil); err != nil || a.Satisfied() || a.Cause == nil || a.Cause.Kind != ClaimMissing || a.Claims[0].Message != "it is being deleted" {
		t.Errorf("it has no devices: %+v, %v", a, err)
	}
	if a, err := w.ExplainClaim(t.Context(), has, nil); err != nil || !a.Satisfied() || a.Cause != nil || !strings.HasSuffix(a.Claims[0].Message, "; it is being deleted") {
		t.Errorf("it has devices: %+v, %v", a, err)
	}
}

// TestMessages says what, whose and by whom.
func TestMessages(t *testing.T) {
	hot := gpus(2)
	hot[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/none", Effect: resourceapi.DeviceTaintEffectNone},
		{Key: "gpu.example.com/hot", Value: "very", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	other := holding("other", "n1", "gpu-1")
	for i := range 5 {
		other.Status.ReservedFor = append(other.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: fmt.Sprint("p", i)})
	}
	c := claim("c", nil)
	r, err := Cluster{View: tracker.Merge(class(), slice("n1", hot...)), Claims: []*resourceapi.ResourceClaim{c, other}, Notes: []string{"a note"}}.Explain(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range r.Requests[0].Devices {
		got = append(got, d.Message)
	}
	want := []string{
		"taint gpu.example.com/hot=very:NoExecute of driver/gpu.example.com is not tolerated",
		"held by claim team-b/other (pod p0, pod p1, pod p2, 2 others)",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(r.Notes) != 2 || r.Requests[0].Message != "needs 1 device; none is suitable" {
		t.Errorf("%q, notes %q, %s", got, r.Notes, r.Requests[0].Message)
	}
}

// BenchmarkExplain is a claim in a cluster in which all devices are allocated.
func BenchmarkExplain(b *testing.B) {
	w, objects := Cluster{}, []any{class(`device.driver == "gpu.example.com"`)}
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		objects, w.Nodes = append(objects, slice(name, gpus(4)...)), append(w.Nodes, node(name))
		w.Claims = append(w.Claims, holding("h"+name, name, "gpu-0", "gpu-1", "gpu-2", "gpu-3"))
	}
	w.View = tracker.Merge(objects...)
	c := claim("c", func(c *resourceapi.ResourceClaim) { request(c).Count = 2 })
	for b.Loop() {
		if r, err := w.Explain(b.Context(), c, nil); err != nil || r.Causes[0].Kind != DevicesTaken {
			b.Fatal(err, r.Causes)
		}
	}
}

// TestSlow: of a claim for which the allocator searches for days, the answer says so within seconds.
func TestSlow(t *testing.T) {
	c := claim("c", func(c *resourceapi.ResourceClaim) {
		c.Spec.Devices.Requests = nil
		for _, name := range []string{"a", "b", "c"} {
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}})
		}
		c.Spec.Devices.Requests[0].Exactly.Count = 12
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"b", "c"}, MatchAttribute: new(resourceapi.FullyQualifiedName("gpu.example.com/none"))}}
	})
	w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(24)...)), Claims: []*resourceapi.ResourceClaim{c}}
	report, err := w.Explain(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "the search for devices takes too long"
	if report.Verdict != Unsatisfiable || report.Message != want || len(report.Causes) != 1 || report.Causes[0].Message != want {
		t.Errorf("got %s %q, %+v", report.Verdict, report.Message, report.Causes)
	}
}
