package placement

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// amounts are those of resources: thousandths of cpu, whole units of others.
type amounts map[corev1.ResourceName]int64

// mostAmount bounds what counts of one resource: tenants request as much as 63 bits hold, of which the sum must not overflow.
const mostAmount = 1 << 48

func amountsOf(list corev1.ResourceList) amounts {
	all := make(amounts, len(list))
	for name, quantity := range list {
		all[name] = min(quantity.Value(), mostAmount)
		if name == corev1.ResourceCPU && all[name] < mostAmount/1000 {
			all[name] = quantity.MilliValue()
		}
	}
	return all
}

func requestsOf(pod *corev1.Pod) amounts {
	all := amountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	maps.DeleteFunc(all, func(_ corev1.ResourceName, n int64) bool { return n == 0 })
	return all
}

// A node is one with what its pods use. It is replaced, never changed.
type node struct {
	*corev1.Node
	allocatable, used amounts
	pods              int64
	ports             map[port]int
}

// port is one of the host.
type port struct {
	number   int32
	protocol corev1.Protocol
	ip       string
}

// portsOf are the ports of the host that containers use as long as the pod runs. Like kube-scheduler, it leaves out those
// of init containers that end.
func portsOf(s *corev1.PodSpec) (all []port) {
	ends := func(c corev1.Container) bool {
		return ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways
	}
	for _, c := range append(slices.DeleteFunc(slices.Clone(s.InitContainers), ends), s.Containers...) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				all = append(all, port{p.HostPort, cmp.Or(p.Protocol, corev1.ProtocolTCP), cmp.Or(p.HostIP, "0.0.0.0")})
			}
		}
	}
	return all
}

// use adds the requests of a pod to a node, or takes them off with sign -1.
func (s *Simulation) use(name string, pod *corev1.Pod, sign int64) {
	i, known := s.byName[name]
	if !known {
		return
	}
	s.setAnti(pod, sign)
	changed := *s.nodes[i]
	changed.used = maps.Clone(changed.used)
	if changed.used == nil {
		changed.used = amounts{}
	}
	for resource, n := range requestsOf(pod) {
		changed.used[resource] += sign * n
	}
	changed.pods += sign
	if ports := portsOf(&pod.Spec); len(ports) > 0 {
		changed.ports = maps.Clone(changed.ports)
		if changed.ports == nil {
			changed.ports = map[port]int{}
		}
		for _, p := range ports {
			if changed.ports[p] += int(sign); changed.ports[p] == 0 {
				delete(changed.ports, p)
			}
		}
	}
	s.nodes[i] = &changed
}

// free is the part of cpu and memory that is free, the larger the freer.
func (n *node) free() float64 {
	part := func(name corev1.ResourceName) float64 {
		if n.allocatable[name] == 0 {
			return 0
		}
		return float64(n.allocatable[name]-n.used[name]) / float64(n.allocatable[name])
	}
	return part(corev1.ResourceCPU) + part(corev1.ResourceMemory)
}

// order yields the places of nodes in the order in which they are tried.
func (s *Simulation) order(pod *corev1.Pod, seen *misses) iter.Seq[int] {
	return func(yield func(int) bool) {
		if seen.count == len(s.nodes) {
			return
		}
		if pod.Spec.NodeName != "" {
			if i, known := s.byName[pod.Spec.NodeName]; known {
				yield(i)
			}
			return
		}
		var places []int
		if s.chance != nil {
			places = s.chance.Perm(len(s.nodes))
		} else {
			places = make([]int, len(s.nodes))
			score := make([]float64, len(s.nodes))
			for i := range places {
				places[i], score[i] = i, s.nodes[i].free()
			}
			slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
		}
		for _, i := range places {
			if !yield(i) {
				return
			}
		}
	}
}

// against returns why a pod does not run on a node, apart from devices, in the order in which
// kube-scheduler looks.
func (n *node) against(pod *corev1.Pod, needs *needs) (Kind, string) {
	tolerated := func(taint corev1.Taint) bool {
		_, found := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), []corev1.Taint{taint}, pod.Spec.Tolerations, nil, true)
		return !found
	}
	if n.Spec.Unschedulable && !tolerated(corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return Unschedulable, "is unschedulable"
	}
	for _, taint := range n.Spec.Taints {
		if excludes(&taint) && !tolerated(taint) {
			return NodeTaint, "has the taint " + taint.ToString()
		}
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n.Node); err != nil || !ok {
		return NodeSelector, "does not match the node selector or affinity"
	}
	for _, p := range portsOf(&pod.Spec) {
		if n.busy(p) {
			return NodePorts, fmt.Sprintf("has port %d in use", p.number)
		}
	}
	if kind, message := n.short(needs); kind != "" {
		return kind, message
	}
	if kind, message := needs.rest.against(n); kind != "" {
		return kind, message
	}
	for _, claim := range needs.allocated {
		if !Matches(n.Node, nil, nil, claim.Status.Allocation.NodeSelector) && claim.Status.Allocation.NodeSelector != nil {
			return ClaimElsewhere, fmt.Sprintf("cannot use claim %s, which is allocated elsewhere", claim.Name)
		}
	}
	return "", ""
}

// busy reports whether a port of the host is in use.
func (n *node) busy(wanted port) bool {
	for p := range n.ports {
		if p.number == wanted.number && p.protocol == wanted.protocol && (p.ip == wanted.ip || p.ip == "0.0.0.0" || wanted.ip == "0.0.0.0") {
			return true
		}
	}
	return false
}

// short returns the resource of which a node has too little.
func (n *node) short(needs *needs) (Kind, string) {
	if len(n.allocatable) == 0 { // a manifest without a status
		return "", ""
	}
	if limit, known := n.allocatable[corev1.ResourcePods]; known && n.pods+1 > limit {
		return Resources, "has as many pods as it can have"
	}
	for _, name := range slices.Sorted(maps.Keys(needs.requests)) {
		asked, has := needs.requests[name], n.allocatable[name]
		if has == 0 && needs.classes[name] != nil {
			continue // a device is allocated for it
		}
		if n.used[name]+asked > has {
			return Resources, "has too little " + string(name)
		}
	}
	return "", ""
}
