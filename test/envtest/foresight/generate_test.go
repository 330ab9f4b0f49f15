package foresight_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// worldLabel is on the nodes of a world.
const worldLabel = "example.com/world"

// A plan is a world before it exists, and the change to make.
type plan struct {
	name      string
	random    *rand.Rand
	nodes     []string
	cpu       []int64
	drivers   []string
	classes   []*resourceapi.DeviceClass
	slices    []*resourceapi.ResourceSlice
	templates []*resourceapi.ResourceClaimTemplate
	sets      []*appsv1.ReplicaSet
	groups    []*schedulingapi.PodGroup
	// cordoned is a node that is unschedulable before the change, empty for none.
	cordoned string
	// admin allows claims of the namespace to have admin access.
	admin  bool
	change change
}

// A change is one of kinds, of devices or of a node.
type change struct {
	kind         string
	driver, pool string
	devices      []string
	node         string
	// arriving is created by the change.
	arriving *appsv1.ReplicaSet
	// class is as the change makes it.
	class *resourceapi.DeviceClass
}

// drains reports whether the change is a drain.
func (c change) drains() bool { return c.kind == "drain pool" || c.kind == drainSiblings }

func (c change) String() string {
	return fmt.Sprintf("%s %s/%s %v %s", c.kind, c.driver, c.pool, c.devices, c.node)
}

// kinds of devices that a driver publishes.
const (
	plain    = "plain"
	parts    = "partitions"
	shared   = "shares"
	extended = "extended resources"
)

// without134 are kinds of devices, on 1.34 without shares: there kube-scheduler allocates a share only
// if the first device of the slice has enough left, kubernetes#133705.
func without134(kinds ...string) []string {
	if minor() == oldest {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == shared })
	}
	return kinds
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// newPlan makes a world from a seed.
func newPlan(seed uint64) *plan {
	p := &plan{name: fmt.Sprintf("w%d", seed), random: rand.New(rand.NewPCG(seed, 22))}
	p.place()
	kinds := without134(plain, parts, shared, extended)
	first := p.random.IntN(len(kinds))
	for i := range 1 + p.random.IntN(2) {
		p.driver(fmt.Sprintf("d%d.%s.example.com", i, p.name), kinds[(first+i)%len(kinds)])
	}
	if p.random.IntN(2) == 0 {
		p.both()
	}
	for _, set := range p.sets {
		if p.random.IntN(10) == 0 && minor() == newest {
			p.gang(set)
		}
	}
	if p.random.IntN(4) == 0 {
		p.cordoned = p.nodes[p.random.IntN(len(p.nodes))]
	}
	p.plan()
	return p
}

// place makes the nodes.
func (p *plan) place() {
	for i := range 3 + p.random.IntN(3) {
		p.nodes = append(p.nodes, fmt.Sprintf("%s-n%d", p.name, i))
		p.cpu = append(p.cpu, 10+2*p.random.Int64N(4))
	}
}

// both makes a set whose pods have the claims of two other sets.
func (p *plan) both() {
	if len(p.templates) < 2 {
		return
	}
	set := p.set("both", 1+p.random.IntN(2))
	pod := &set.Spec.Template.Spec
	for i, at := range p.random.Perm(len(p.templates))[:2] {
		name := fmt.Sprint("devices-", i)
		pod.ResourceClaims = append(pod.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &p.templates[at].Name})
		pod.Containers[0].Resources.Claims = append(pod.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: name})
	}
	p.sets = append(p.sets, set)
}

// gang lets the pods of a set be scheduled together or not at all.
func (p *plan) gang(set *appsv1.ReplicaSet) {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: set.Name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: *set.Spec.Replicas}
	set.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
	p.groups = append(p.groups, group)
}

// driver publishes a pool on each node, and makes the templates and sets that use it.
func (p *plan) driver(name, kind string) {
	p.drivers = append(p.drivers, name)
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-c%d", p.name, len(p.drivers))}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", name)}}}
	if kind == extended {
		class.Spec.ExtendedResourceName = ptr.To(p.extendedName(len(p.drivers)))
	}
	p.classes = append(p.classes, class)
	total := 0
	for _, node := range p.nodes {
		total += p.publish(name, node, kind)
	}
	p.users(class.Name, name, kind, total)
}

func (p *plan) extendedName(driver int) string {
	return fmt.Sprintf("%s.example.com/gpu%d", p.name, driver)
}

// publish makes the slices of a pool, and returns for how many pods it is meant.
func (p *plan) publish(driver, node, kind string) int {
	pool := resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-d%d", node, len(p.drivers))},
		Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: pool}}
	n := 3 + p.random.IntN(4)
	switch kind {
	case parts:
		counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice.Name + "-counters"}, Spec: slice.Spec}
		slice.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
		n = 1 + p.random.IntN(3)
		for i := range n {
			set := fmt.Sprintf("gpu-%d", i)
			counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{"memory": {Value: quantity("40Gi")}}})
			for size, gi := range map[string]string{"whole": "40Gi", "half-a": "20Gi", "half-b": "20Gi", "quarter-a": "10Gi", "quarter-b": "10Gi"} {
				slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: set + "-" + size,
					Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"size": {StringValue: ptr.To(size[:4])}},
					ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{"memory": {Value: quantity(gi)}}}}})
			}
		}
		if minor() == oldest { // there the counters are in the slice of their devices
			slice.Spec.Pool.ResourceSliceCount, slice.Spec.SharedCounters = 1, counters.Spec.SharedCounters
			p.slices = append(p.slices, slice)
			return 3 * n
		}
		p.slices = append(p.slices, counters, slice)
		return 3 * n
	case shared:
		for i := range (n + 1) / 2 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), AllowMultipleAllocations: ptr.To(true),
				Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: quantity("40Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{
					Default: ptr.To(quantity("10Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(quantity("5Gi")), Step: ptr.To(quantity("5Gi"))}}}}})
		}
		p.slices = append(p.slices, slice)
		return n
	}
	for i := range n {
		device := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"numa": {IntValue: ptr.To(int64(p.random.IntN(2)))}, "model": {StringValue: ptr.To([]string{"a", "b"}[p.random.IntN(2)])},
		}}
		if p.random.IntN(6) == 0 {
			device.Taints = []resourceapi.DeviceTaint{{Key: "example.com/old", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	p.slices = append(p.slices, slice)
	return n
}

// users makes sets of pods that need about as much as there is.
func (p *plan) users(class, driver, kind string, total int) {
	for used, i := 0, 0; 20*used < 11*total && i < 6; i++ {
		devices, spec := p.claim(class, driver, kind)
		replicas := 2 + p.random.IntN(4)
		used += devices * replicas
		name := fmt.Sprintf("s%d-%d", len(p.drivers), i)
		set := p.set(name, replicas)
		pod := &set.Spec.Template.Spec
		if kind == extended {
			pod.Containers[0].Resources.Requests[corev1.ResourceName(p.extendedName(len(p.drivers)))] = *resource.NewQuantity(int64(devices), resource.DecimalSI)
			pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(p.extendedName(len(p.drivers))): *resource.NewQuantity(int64(devices), resource.DecimalSI)}
		} else {
			p.templates = append(p.templates, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}})
			pod.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
			pod.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
		}
		p.sets = append(p.sets, set)
	}
}

// set is a ReplicaSet whose pods run in the world.
func (p *plan) set(name string, replicas int) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name}}
	set.Spec = appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels}}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{NodeSelector: map[string]string{worldLabel: p.name}, Containers: []corev1.Container{{Name: "c", Image: "example.com/image",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(1+p.random.Int64N(2), resource.DecimalSI)}}}}}
	if p.random.IntN(4) == 0 {
		set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	}
	if p.random.IntN(6) == 0 {
		set.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = p.nodes[p.random.IntN(len(p.nodes))]
	}
	return set
}

// claim is a random claim for devices of a kind, and how many devices it takes.
func (p *plan) claim(class, driver, kind string) (int, resourceapi.ResourceClaimSpec) {
	exactly := func(count int64, selector string) *resourceapi.ExactDeviceRequest {
		r := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
		if selector != "" {
			r.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
		}
		return r
	}
	spec := resourceapi.ResourceClaimSpec{}
	one := func(r *resourceapi.ExactDeviceRequest) {
		spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: r}}
	}
	tolerate := func(r *resourceapi.ExactDeviceRequest) {
		switch p.random.IntN(8) {
		case 2:
			r.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: ptr.To(int64(2))}}
		case 0:
			r.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/old", Operator: resourceapi.DeviceTolerationOpExists}}
		case 1:
			r.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}}
		}
	}
	switch kind {
	case parts:
		sizes := []string{"whol", "half", "quar"}
		r := exactly(1, fmt.Sprintf("device.attributes[%q].size == %q", driver, sizes[p.random.IntN(3)]))
		one(r)
		return 1, spec
	case shared:
		r := exactly(1, "")
		r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": quantity([]string{"10Gi", "15Gi", "20Gi", "30Gi"}[p.random.IntN(4)])}}
		one(r)
		return 1, spec
	case extended:
		return 1 + p.random.IntN(2), spec
	}
	model := func(name string) string { return fmt.Sprintf("device.attributes[%q].model == %q", driver, name) }
	switch p.random.IntN(9) {
	case 0, 5: // two of the same numa node
		r := exactly(2, "")
		tolerate(r)
		one(r)
		spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
		return 2, spec
	case 1: // two of a, or one of b
		sub := func(name string, count int64, selector string) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}}
		}
		spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{sub("two", 2, model("a")), sub("one", 1, model("b"))}}}
		return 1, spec
	case 6: // two of different numa nodes
		one(exactly(2, ""))
		if minor() != oldest { // there kube-scheduler ignores distinctAttribute: kubernetes#135022
			spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
		}
		return 2, spec
	case 7: // one of each model, of the same numa node
		spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "a", Exactly: exactly(1, model("a"))}, {Name: "b", Exactly: exactly(1, model("b"))}}
		spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"a", "b"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
		return 2, spec
	case 8: // all of a model
		r := exactly(0, model([]string{"a", "b"}[p.random.IntN(2)]))
		r.AllocationMode = resourceapi.DeviceAllocationModeAll
		one(r)
		return 2, spec
	case 2:
		one(exactly(1, model([]string{"a", "b"}[p.random.IntN(2)])))
		return 1, spec
	case 3:
		r := exactly(2, "")
		tolerate(r)
		one(r)
		return 2, spec
	}
	r := exactly(1, "")
	tolerate(r)
	one(r)
	return 1, spec
}

// plan selects the change.
func (p *plan) plan() {
	slice := p.slices[p.random.IntN(len(p.slices))]
	for len(slice.Spec.Devices) == 0 {
		slice = p.slices[p.random.IntN(len(p.slices))]
	}
	p.change = change{driver: slice.Spec.Driver, pool: slice.Spec.Pool.Name, node: slice.Spec.Pool.Name}
	switch p.random.IntN(9) {
	case 0:
		p.change.kind = "taint devices"
		for _, d := range slice.Spec.Devices {
			if p.random.IntN(2) == 0 {
				p.change.devices = append(p.change.devices, d.Name)
			}
		}
	case 1, 2, 7, 8:
		p.change.kind = "taint pool"
	case 3:
		p.change.kind = "drain pool"
	case 4:
		p.change.kind = "node away"
	case 5:
		p.change.kind = "taint driver"
		p.change.pool = ""
	case 6:
		p.change.kind = "arrival"
		p.change.arriving = p.sets[len(p.sets)-1]
		p.change.arriving.Spec.Replicas = ptr.To(int32(3))
		p.sets = p.sets[:len(p.sets)-1]
	}
}
