package placement_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const driver = "gpu.example.com"

// slice is what a node publishes: n devices with an even and an odd half.
func slice(node string, n int, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for i := range n {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"numaNode": {IntValue: ptr.To(int64(i % 2))},
		}})
	}
	s.Spec.Devices = append(s.Spec.Devices, devices...)
	return s
}

func class() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")}}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}}}
}

func template(name string, count int64, change ...func(*resourceapi.ResourceClaimSpec)) *resourceapi.ResourceClaimTemplate {
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: count}}}
	for _, c := range change {
		c(&t.Spec.Spec)
	}
	return t
}

func pod(name, template string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "train", Controller: ptr.To(true)}}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	if template != "" {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	}
	return p
}

// place returns where pods land: the node, or the kind of the reason.
func place(t *testing.T, s *placement.Simulation, pods ...*corev1.Pod) (landed []string) {
	t.Helper()
	results, err := s.Place(t.Context(), pods...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Lands() {
			landed = append(landed, r.Node)
		} else {
			landed = append(landed, string(r.Reason.Kind)+" "+r.Reason.Detail)
		}
	}
	return landed
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlacesUntilDevicesAreTaken(t *testing.T) {
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 2)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1)}}
	s := world.Begin()
	expect(t, place(t, s, pod("a", "one"), pod("b", "one"), pod("c", "one")), "n1", "n1", "Taken ")
	if len(s.Claims()) != 2 {
		t.Errorf("%d claims", len(s.Claims()))
	}
}

func TestRemoveGivesBack(t *testing.T) {
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 1)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1)}}
	s := world.Begin()
	results, err := s.Place(t.Context(), pod("a", "one"))
	if err != nil || !results[0].Lands() {
		t.Fatal(results, err)
	}
	other := s.Clone()
	expect(t, place(t, s, pod("b", "one")), "Taken ")
	for _, claim := range s.Claims() {
		t.Log(claim.Name, placement.DeviceNames(claim))
	}
	placed := pod("a", "one")
	placed.Spec.NodeName = "n1"
	placed.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &s.Claims()[0].Name}}
	s.Remove(placed)
	expect(t, place(t, s, pod("b", "one")), "n1")
	expect(t, place(t, other, pod("b", "one")), "Taken ")
}

func TestReasons(t *testing.T) {
	same := func(spec *resourceapi.ResourceClaimSpec) {
		spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numaNode"))}}
	}
	tainted := resourceapi.Device{Name: "old", Taints: []resourceapi.DeviceTaint{{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 2, tainted)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{
		template("one", 1), template("same", 2, same), template("three", 3), template("four", 4),
	}}
	large := pod("large", "one")
	large.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Ti")
	elsewhere := pod("elsewhere", "one")
	elsewhere.Spec.NodeSelector = map[string]string{"zone": "b"}
	extended := pod("extended", "")
	extended.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("3")
	got := place(t, world.Begin(), pod("same", "same"), pod("three", "three"), pod("four", "four"), large, elsewhere, pod("missing", "none"), extended)
	expect(t, got, "Constraint "+driver+"/numaNode", "Tainted ", "Devices ", "Resources ", "NodeSelector ", "TemplateMissing ", "Tainted ")
}

func TestExtendedResources(t *testing.T) {
	plugin := node("n2")
	plugin.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 1)), Nodes: []*corev1.Node{node("n1"), plugin}}
	var pods []*corev1.Pod
	for i := range 3 {
		p := pod(fmt.Sprint("p", i), "")
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		pods = append(pods, p)
	}
	expect(t, place(t, world.Begin(), pods...), "n1", "n2", "Taken ")
}

// TestHostPorts: containers and sidecars use ports of their node, init containers that end do not.
func TestHostPorts(t *testing.T) {
	ports := []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	next := pod("next", "")
	next.Spec.Containers[0].Ports = ports
	for _, tt := range []struct {
		name   string
		change func(*corev1.PodSpec)
		want   string
	}{
		{"container", func(s *corev1.PodSpec) { s.Containers[0].Ports = ports }, "NodePorts "},
		{"sidecar", func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Ports: ports, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		}, "NodePorts "},
		{"large pod", func(s *corev1.PodSpec) {
			s.Containers[0].Ports, s.NodeSelector = ports, map[string]string{}
			for i := range 5_000 {
				s.NodeSelector[fmt.Sprintf("%040d", i)] = "x"
			}
		}, "NodePorts "},
		{"init container", func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Ports: ports}} }, "n1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running := on(pod("running", ""), "n1")
			tt.change(&running.Spec)
			world := placement.Cluster{Nodes: []*corev1.Node{node("n1")}, Pods: kept(t, []*corev1.Pod{running})}
			expect(t, place(t, world.Begin(), next), tt.want)
		})
	}
}

func TestGangIsPlacedWhole(t *testing.T) {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 3}
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 2)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1)},
		Groups: []*schedulingapi.PodGroup{group}}
	var pods []*corev1.Pod
	for i := range 3 {
		p := pod(fmt.Sprint("p", i), "one")
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		pods = append(pods, p)
	}
	s := world.Begin()
	expect(t, place(t, s, append(pods, pod("single", "one"))...), "Gang ", "Gang ", "Taken ", "n1")
	group.Spec.SchedulingPolicy.Gang.MinCount = 2
	expect(t, place(t, world.Begin(), pods...), "n1", "n1", "Taken ")
}

// TestClaimOfAGroup: the pods of a PodGroup share the claim that is made for it, also one that is created again.
func TestClaimOfAGroup(t *testing.T) {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g", UID: "g"}}
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("one")}}
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 1)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1)},
		Groups: []*schedulingapi.PodGroup{group}}
	member := func(name string) *corev1.Pod {
		p := pod(name, "one")
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		return p
	}
	s := world.Begin()
	expect(t, place(t, s, member("a"), member("b"), pod("single", "one")), "n1", "n1", "Taken ")
	group.Status.ResourceClaimStatuses = []schedulingapi.PodGroupResourceClaimStatus{{Name: "gpu", ResourceClaimName: &s.Claims()[0].Name}}
	world.Claims = s.Claims()
	expect(t, place(t, world.Begin(), member("c"), pod("single", "one")), "n1", "Taken ")
}

func TestSharesAndCounters(t *testing.T) {
	shared := resourceapi.Device{Name: "shared", AllowMultipleAllocations: ptr.To(true), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"memory": {Value: resource.MustParse("10Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("1Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1Gi"))}}},
	}}
	six := func(spec *resourceapi.ResourceClaimSpec) {
		spec.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
	}
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 0, shared)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("share", 1, six)}}
	expect(t, place(t, world.Begin(), pod("a", "share"), pod("b", "share"), pod("c", "share")), "n1", "n1", "Taken ")

	counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "counters"}}
	counters.Spec = resourceapi.ResourceSliceSpec{Driver: driver, NodeName: ptr.To("n1"), Pool: resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 2},
		SharedCounters: []resourceapi.CounterSet{{Name: "gpu", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("10Gi")}}}}}
	partition := func(name, size string) resourceapi.Device {
		return resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(size)}}}}}
	}
	devices := slice("n1", 0, partition("half-0", "5Gi"), partition("half-1", "5Gi"), partition("whole", "10Gi"))
	devices.Spec.Pool.ResourceSliceCount = 2
	world = placement.Cluster{View: tracker.Merge(class(), counters, devices), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1)}}
	expect(t, place(t, world.Begin(), pod("a", "one"), pod("b", "one"), pod("c", "one")), "n1", "n1", "Taken ")
}

// TestSharesWithoutTheGate: a claim that has a share of a device takes all of it.
func TestSharesWithoutTheGate(t *testing.T) {
	held := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "held"}}
	held.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: driver, Pool: "n1", Device: "gpu-0", ShareID: ptr.To(types.UID("share"))}}}}
	world := placement.Cluster{View: tracker.Merge(class(), slice("n1", 1)), Nodes: []*corev1.Node{node("n1")}, Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1)},
		Claims: []*resourceapi.ResourceClaim{held}, Gates: gates.Defaults(37)}
	world.Gates.Features.ConsumableCapacity = false
	s := world.Begin()
	expect(t, place(t, s, pod("a", "one")), "Taken ")
	free := held.DeepCopy()
	free.Status.Allocation = nil
	s.Add(free)
	expect(t, place(t, s, pod("a", "one")), "n1")
}

// TestLargerThanIsRead: of a pod, template or claim beyond the bound no place is looked for. It keeps what it takes.
func TestLargerThanIsRead(t *testing.T) {
	long := func(s *resourceapi.ResourceClaimSpec) {
		for i := range s.Devices.Requests {
			s.Devices.Requests[i].Exactly.Selectors = slices.Repeat([]resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true || " + strings.Repeat(" ", 9<<10) + "true"}}}, 8)
		}
	}
	selects := pod("selects", "one")
	selects.Spec.NodeSelector = map[string]string{}
	for i := range 5_000 {
		selects.Spec.NodeSelector[fmt.Sprintf("%040d", i)] = "x"
	}
	world := keptWorld(t, running(t, two(1, 1, template("one", 1), template("large", 1, long)), pod("large", "large"), pod("fits", "one")))
	s := world.Begin()
	for _, p := range kept(t, []*corev1.Pod{selects, pod("another", "large")}) {
		r, err := s.Fits(t.Context(), p)
		if err != nil || r.Reason.Kind != placement.TooLarge {
			t.Errorf("%s: %+v, %v", p.Name, r.Reason, err)
		}
	}
	r, err := s.Fits(t.Context(), pod("next", "one"))
	if err != nil || r.Reason.Kind != placement.Taken {
		t.Errorf("the devices of a large claim: %+v, %v", r, err)
	}
}

// TestMemoryOfKinds: pods that differ, each by tens of kilobytes, leave little behind.
func TestMemoryOfKinds(t *testing.T) {
	world, pods := two(1, 1), make([]*corev1.Pod, 200)
	long := map[string]string{}
	for i := range 500 {
		long[fmt.Sprintf("%060d", i)] = "x"
	}
	for i := range pods {
		pods[i] = pod(fmt.Sprint("p", i), "")
		pods[i].Spec.NodeSelector = long
		pods[i].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(i), resource.DecimalSI)
	}
	s := world.Begin()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	place(t, s, pods...)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	runtime.KeepAlive(s)
}

// TestAmountsDoNotOverflow: no request makes place on a node, whether its pod waits or names its node.
func TestAmountsDoNotOverflow(t *testing.T) {
	for name, other := range map[corev1.ResourceName]string{corev1.ResourceCPU: "Resources ", corev1.ResourceMemory: "n1"} { // the other pod requests cpu
		for _, request := range []string{"9223372036854775807", "9223372036854776", "9223372036854775807m"} {
			asks := func(of string) *corev1.Pod {
				p := pod(of, "")
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(request)}
				return p
			}
			world := two(1, 1)
			world.Nodes, world.Pods = world.Nodes[:1], []*corev1.Pod{on(asks("a"), "n1"), on(asks("b"), "n1")}
			expect(t, place(t, world.Begin(), asks("c"), pod("d", "")), "Resources ", other)
		}
	}
}
