package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// firstName is the place of the first name that a pod has for a claim.
func firstName(pod *corev1.Pod, claim string) int {
	return slices.IndexFunc(pod.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool {
		return r.ResourceClaimName != nil && *r.ResourceClaimName == claim
	})
}

// namedTwice finds claims for which the pod has a second name. kube-scheduler reserves the
// claim for the pod once for each name, and the API server refuses the duplicate.
func namedTwice(pod *corev1.Pod) (all []Cause) {
	for i, reference := range pod.Spec.ResourceClaims {
		if reference.ResourceClaimName == nil {
			continue
		}
		at := firstName(pod, *reference.ResourceClaimName)
		if at == i {
			continue
		}
		claim, first := *reference.ResourceClaimName, pod.Spec.ResourceClaims[at].Name
		c := Cause{Kind: ClaimNamedTwice, Claim: claim, Message: fmt.Sprintf(
			"the pod has claim %s under two names, %s and %s; kube-scheduler cannot reserve a claim twice for a pod", claim, first, reference.Name)}
		editPod(&c, pod, fmt.Sprintf("remove the name %s, and let the containers use %s", reference.Name, first), func(s *corev1.PodSpec) {
			rename(s.InitContainers, reference.Name, first)
			rename(s.Containers, reference.Name, first)
			s.ResourceClaims = slices.Delete(s.ResourceClaims, i, i+1)
		})
		return []Cause{c} // the next one has another place once this is removed
	}
	return nil
}

// rename lets containers that use a claim by its second name use the first.
func rename(containers []corev1.Container, second, first string) {
	for i := range containers {
		claims := &containers[i].Resources.Claims
		for j, used := range slices.Backward(*claims) {
			switch {
			case used.Name != second:
			case slices.ContainsFunc(*claims, func(r corev1.ResourceClaim) bool { return r.Name == first && r.Request == used.Request }):
				*claims = slices.Delete(*claims, j, j+1)
			default:
				(*claims)[j].Name = first
			}
		}
	}
}

// waiting are the conditions for kube-scheduler to process the pod at all.
func (w Cluster) waiting(a *Answer, pod *corev1.Pod) (all []Cause) {
	var gates []string
	for _, gate := range pod.Spec.SchedulingGates {
		gates = append(gates, gate.Name)
	}
	if gates != nil {
		all = append(all, Cause{Kind: SchedulingGate, Message: "the pod has the scheduling gate " + list(gates, 5), Remedy: "the controller that set the gate must remove it"})
	}
	if name := pod.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName && !processed(pod) {
		c := Cause{Kind: SchedulerMissing, Message: fmt.Sprintf("no scheduler %s has processed the pod", name)}
		editPod(&c, pod, "start that scheduler, or use "+corev1.DefaultSchedulerName, func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName })
		all = append(all, c)
	}
	return append(append(all, w.group(pod)...), w.unknownResources(a, pod)...)
}

// processed reports whether a scheduler has reported on a pod.
func processed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// group compares the pods of a PodGroup with the number that it needs.
func (w Cluster) group(pod *corev1.Pod) []Cause {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil || w.NoGroups {
		return nil
	}
	name, exist := *pod.Spec.SchedulingGroup.PodGroupName, int32(0)
	i := slices.IndexFunc(w.Groups, func(g *schedulingapi.PodGroup) bool { return g.Name == name && g.Namespace == pod.Namespace })
	if i < 0 {
		return []Cause{{Kind: GroupIncomplete, Message: fmt.Sprintf("PodGroup %s does not exist", name), Remedy: fmt.Sprintf("create PodGroup %s in namespace %s", name, pod.Namespace)}}
	}
	for _, other := range w.Pods {
		if g := other.Spec.SchedulingGroup; other.Namespace == pod.Namespace && g != nil && g.PodGroupName != nil && *g.PodGroupName == name &&
			other.DeletionTimestamp == nil && other.Status.Phase != corev1.PodSucceeded && other.Status.Phase != corev1.PodFailed {
			exist++
		}
	}
	gang := w.Groups[i].Spec.SchedulingPolicy.Gang
	if gang == nil || exist >= gang.MinCount {
		return nil
	}
	c := Cause{Kind: GroupIncomplete, Message: fmt.Sprintf("PodGroup %s needs %d pods at once; %d exist", name, gang.MinCount, exist)}
	c.Remedy = fmt.Sprintf("create %s, or lower minCount", plural.Of(int(gang.MinCount-exist), "pod"))
	c.Command = mergePatch("podgroup.scheduling.k8s.io", pod.Namespace, name, map[string]any{"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": exist}}}})
	return []Cause{c}
}

// unknownResources are the extended resources that no node and no DeviceClass has.
func (w Cluster) unknownResources(a *Answer, pod *corev1.Pod) (all []Cause) {
	requested := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var known []string
	for class := range w.View.Classes() {
		if class.Spec.ExtendedResourceName != nil {
			known = append(known, *class.Spec.ExtendedResourceName)
		}
	}
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		if !strings.Contains(a.Scheduler, "Insufficient "+string(name)) || !strings.Contains(string(name), "/") || w.classOf(name) != "" || w.offered(name) {
			continue
		}
		c := Cause{Kind: ResourceUnknown, Message: fmt.Sprintf("no node and no DeviceClass has the extended resource %s%s", name, didYouMean(string(name), known))}
		_, last, _ := strings.Cut(string(name), "/")
		class := w.View.Class(last)
		switch near := nearest(string(name), known); {
		case near != "":
			editPod(&c, pod, "request "+near, func(s *corev1.PodSpec) { renameResource(s, name, corev1.ResourceName(near)) })
		case class != nil && class.Spec.ExtendedResourceName == nil:
			c.Remedy = "let DeviceClass " + last + " provide it"
			c.Command = mergePatch("deviceclass", "", last, map[string]any{"spec": map[string]any{"extendedResourceName": name}})
		default:
			c.Remedy = "set spec.extendedResourceName of the DeviceClass that provides it"
		}
		all = append(all, c)
	}
	return all
}

func (w Cluster) offered(name corev1.ResourceName) bool {
	return slices.ContainsFunc(w.Nodes, func(node *corev1.Node) bool { return provides(node, name) })
}

// provides reports whether a node has a resource, such as by a device plugin.
func provides(node *corev1.Node, name corev1.ResourceName) bool {
	quantity, ok := node.Status.Allocatable[name]
	return ok && !quantity.IsZero()
}

// mixed reports whether device plugins provide a resource on some nodes, and the answer is about devices on others.
func (w Cluster) mixed(a *Answer, name corev1.ResourceName) bool {
	class := w.classOf(name)
	return class != "" && w.offered(name) && slices.ContainsFunc(a.Claims, func(claim Explanation) bool {
		return claim.Claim == extendedClaim && slices.ContainsFunc(claim.Requests, func(r Request) bool { return r.Class == class })
	})
}

// renameResource requests another resource in each container.
func renameResource(spec *corev1.PodSpec, name, to corev1.ResourceName) {
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range containers {
			for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
				if quantity, ok := list[name]; ok {
					list[to] = quantity
					delete(list, name)
				}
			}
		}
	}
}

// leaving reports whether an allocated claim has a cause: it is being deleted.
func (a *Answer) leaving() bool {
	return slices.ContainsFunc(a.Claims, func(r Explanation) bool { return r.Verdict == Allocated && len(r.Causes) > 0 })
}

// plugins is what kube-scheduler reports of device plugins on some nodes, where the devices on others are not available.
func (w Cluster) plugins(a *Answer, pod *corev1.Pod) []Cause {
	satisfied, requested := a.Satisfied() && !a.leaving(), resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		if quantity := requested[name]; !satisfied && strings.Contains(a.Scheduler, "Insufficient "+string(name)) && w.mixed(a, name) {
			return []Cause{{Kind: NodeResources, Remedy: fmt.Sprintf("end other pods on those nodes, or request less %s", name),
				Message: fmt.Sprintf("no node that has %s without a claim, such as by a device plugin, has %s left for the pod", name, quantity.String())}}
		}
	}
	return nil
}

// tooSmall compares a request of the pod with the nodes.
func (w Cluster) tooSmall(pod *corev1.Pod, name corev1.ResourceName, requested resource.Quantity) Cause {
	var largest resource.Quantity
	for _, node := range w.Nodes {
		if quantity := node.Status.Allocatable[name]; quantity.Cmp(largest) > 0 {
			largest = quantity
		}
	}
	c := Cause{Kind: NodeResources, Message: fmt.Sprintf("the devices are available, but no node with them has %s %s left for the pod", requested.String(), name)}
	c.Remedy = fmt.Sprintf("end other pods on those nodes, or request less %s", name)
	if requested.Cmp(largest) <= 0 || largest.IsZero() {
		return c
	}
	c.Message = fmt.Sprintf("the devices are available, but the pod requests %s %s and the largest node has %s", requested.String(), name, largest.String())
	c.Remedy = "request less " + string(name)
	if len(pod.Spec.Containers) > 1 || len(pod.Spec.InitContainers) > 0 || pod.Spec.Resources != nil || pod.Spec.Overhead != nil {
		return c
	}
	editPod(&c, pod, fmt.Sprintf("request at most %s", largest.String()), func(s *corev1.PodSpec) {
		resources := s.Containers[0].Resources
		resources.Requests[name] = largest
		if limit, limited := resources.Limits[name]; limited && limit.Cmp(largest) > 0 {
			resources.Limits[name] = largest
		}
	})
	return c
}
