package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/extendedresource"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
)

const (
	// podResource is the resource of the origin of a claim that kube-scheduler makes for
	// extended resources.
	podResource = "pod"
	// extendedClaim is the name of such a claim in answers until it is made.
	extendedClaim = "<extended resources>"
)

// An Answer is why a pod, or a claim, waits.
type Answer struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod,omitempty"`
	// Cause is the likeliest, nil if there is none; OtherCauses are the others.
	Cause       *Cause  `json:"cause,omitempty"`
	OtherCauses []Cause `json:"otherCauses,omitempty"`
	// Scheduler is the last message of kube-scheduler about the pod, Events are those about
	// its claims.
	Scheduler string        `json:"scheduler,omitempty"`
	Events    []string      `json:"events,omitempty"`
	Claims    []Explanation `json:"claims"`
	// FeatureGates are those that the allocator used.
	FeatureGates gates.Used `json:"featureGates"`
}

// answer begins an answer.
func (w Cluster) answer(namespace string) Answer {
	return Answer{Namespace: namespace, Claims: []Explanation{}, FeatureGates: placement.Known(w.Gates).Used()}
}

// ExplainClaim returns why a claim waits. pod is one that uses it, nil if none is known.
func (w Cluster) ExplainClaim(ctx context.Context, claim *resourceapi.ResourceClaim, pod *corev1.Pod) (Answer, error) {
	report, err := w.Explain(ctx, claim, pod)
	a := w.answer(claim.Namespace)
	a.Claims = append(a.Claims, report)
	if pod != nil {
		return a, cmp.Or(err, w.surround(ctx, &a, pod))
	}
	a.rank(nil)
	if a.Cause == nil && report.Verdict == Allocatable {
		a.rank([]Cause{{Kind: Unused, Claim: claim.Name, Message: "no pod uses claim " + claim.Name + "; it is allocated with the first pod that does", Remedy: "create a pod that names it"}})
	}
	return a, err
}

// ExplainPod returns why a pod waits: for its claims, or for something else.
func (w Cluster) ExplainPod(ctx context.Context, pod *corev1.Pod) (Answer, error) {
	a := w.answer(pod.Namespace)
	for i := range pod.Spec.ResourceClaims {
		reference := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, reference)
		switch {
		case reference.ResourceClaimName != nil && firstName(pod, *reference.ResourceClaimName) < i: // is explained already
		case errors.Is(err, resourceclaim.ErrClaimNotFound):
			a.Claims = append(a.Claims, w.notMade(pod, reference))
		case err != nil || name == nil: // an unknown kind of reference, or no claim is needed
		default:
			if err := w.named(ctx, &a, pod, reference, *name); err != nil {
				return a, err
			}
		}
	}
	if err := w.extended(ctx, &a, pod); err != nil {
		return a, err
	}
	return a, w.surround(ctx, &a, pod)
}

// named explains a claim that the pod names.
func (w Cluster) named(ctx context.Context, a *Answer, pod *corev1.Pod, reference *corev1.PodResourceClaim, name string) error {
	claim := w.claim(pod.Namespace, name)
	if claim == nil {
		a.Claims = append(a.Claims, w.missing(pod, reference, name))
		return nil
	}
	report, err := w.Explain(ctx, claim, pod)
	a.Claims = append(a.Claims, report)
	return err
}

func (w Cluster) claim(namespace, name string) *resourceapi.ResourceClaim {
	for _, claim := range w.Claims {
		if claim.Name == name && claim.Namespace == namespace {
			return claim
		}
	}
	return nil
}

// extended explains the claim that kube-scheduler makes for the extended resources of a
// pod. Before it does, its requests are known.
func (w Cluster) extended(ctx context.Context, a *Answer, pod *corev1.Pod) error {
	if made := pod.Status.ExtendedResourceClaimStatus; made != nil {
		return w.named(ctx, a, pod, nil, made.ResourceClaimName)
	}
	if pod.Spec.NodeName != "" {
		return nil
	}
	requests := extendedresource.Requests(pod, w.classOf)
	if nodes := w.withoutPlugins(requests); len(nodes) < len(w.Nodes) {
		if len(nodes) > 0 {
			if report, err := w.requested(ctx, pod, requests, nodes); err != nil || report.atHand() {
				a.Claims = append(a.Claims, report)
				return err
			}
		}
		requests = extendedresource.Requests(pod, func(resource corev1.ResourceName) string {
			if w.offered(resource) {
				return ""
			}
			return w.classOf(resource)
		})
	}
	if len(requests) == 0 {
		return nil
	}
	report, err := w.requested(ctx, pod, requests, w.Nodes)
	a.Claims = append(a.Claims, report)
	return err
}

// withoutPlugins are the nodes where no device plugin provides a resource of the requests: kube-scheduler allocates
// devices only there.
func (w Cluster) withoutPlugins(requests []extendedresource.Request) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(node *corev1.Node) bool {
		return slices.ContainsFunc(requests, func(r extendedresource.Request) bool { return provides(node, extendedPath(r.Path.String()).resource()) })
	})
}

// requested explains the claim for requests of extended resources on nodes.
func (w Cluster) requested(ctx context.Context, pod *corev1.Pod, requests []extendedresource.Request, nodes []*corev1.Node) (Explanation, error) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: extendedClaim}}
	var at []extendedPath
	for _, r := range requests {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, r.DeviceRequest)
		at = append(at, extendedPath(r.Path.String()))
	}
	q := w.question(placement.Defaulted(claim))
	q.cluster.Nodes = nodes
	q.pod, q.origin, q.extended = pod, origin{resource: podResource, namespace: pod.Namespace, name: pod.Name}, at
	return q.explain(ctx)
}

// atHand reports whether each request has a device of its class where the pod may run.
func (e *Explanation) atHand() bool {
	return !slices.ContainsFunc(e.Requests, func(r Request) bool {
		return !slices.ContainsFunc(r.Devices, func(d Device) bool { return d.Reason != ClassSelector && d.Reason != NodeMismatch })
	})
}

// An extendedPath is where a pod requests an extended resource:
// spec.containers[0].resources.requests[NAME], or without the container.
type extendedPath string

// set changes the request, and the limit with it.
func (p extendedPath) set(spec *corev1.PodSpec, quantity resource.Quantity) {
	name := p.resource()
	resources, i := spec.Resources, 0
	if n, _ := fmt.Sscanf(string(p), "spec.containers[%d]", &i); n == 1 {
		resources = &spec.Containers[i].Resources
	} else if n, _ := fmt.Sscanf(string(p), "spec.initContainers[%d]", &i); n == 1 {
		resources = &spec.InitContainers[i].Resources
	}
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if _, asks := list[name]; asks {
			list[name] = quantity
		}
	}
}

// resource is the extended resource that the pod requests there.
func (p extendedPath) resource() corev1.ResourceName {
	_, name, _ := strings.Cut(strings.TrimSuffix(string(p), "]"), "resources.requests[")
	return corev1.ResourceName(name)
}

// classOf returns the DeviceClass of an extended resource.
func (w Cluster) classOf(resource corev1.ResourceName) string {
	if class := extendedresource.ImplicitClass(resource); class != "" {
		return class
	}
	var found *resourceapi.DeviceClass
	for class := range w.View.Classes() {
		if class.Spec.ExtendedResourceName != nil && *class.Spec.ExtendedResourceName == string(resource) && (found == nil || extendedresource.Supersedes(class, found)) {
			found = class
		}
	}
	if found == nil {
		return ""
	}
	return found.Name
}

// surround adds what does not depend on devices, and ranks all causes.
func (w Cluster) surround(ctx context.Context, a *Answer, pod *corev1.Pod) error {
	a.Pod = pod.Name
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			a.Scheduler = c.Message
		}
	}
	for _, e := range w.Events {
		if about(e, pod, creationFailed) || about(e, pod, prepareFailed) {
			a.Events = append(a.Events, e.Reason+": "+e.Message)
		}
	}
	a.Events = unique(a.Events)
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || hasEnded(pod) {
		a.rank(w.state(a, pod))
		return nil
	}
	causes := slices.Concat(namedTwice(pod), w.waiting(a, pod), w.bound(a, pod), w.binding(a, pod), w.plugins(a, pod))
	if len(causes) == 0 && a.Satisfied() && !a.leaving() {
		cause, err := w.place(ctx, a, pod)
		if err != nil {
			return err
		}
		causes = append(causes, cause)
	}
	a.rank(causes)
	return nil
}

// rank orders all causes.
func (a *Answer) rank(causes []Cause) {
	for i := range a.Claims {
		causes = append(causes, a.Claims[i].Causes...)
		a.Claims[i].Causes = nil
	}
	ranked := Rank(causes)
	if len(ranked) > 0 {
		a.Cause, a.OtherCauses = &ranked[0], ranked[1:]
	}
}

// Satisfied reports whether all claims are allocated or could be.
func (a *Answer) Satisfied() bool {
	return !slices.ContainsFunc(a.Claims, func(r Explanation) bool { return r.Verdict != Allocated && r.Verdict != Allocatable })
}

// bound are the claims that are allocated where the pod cannot run.
func (w Cluster) bound(a *Answer, pod *corev1.Pod) (all []Cause) {
	for _, report := range a.Claims {
		claim := w.claim(pod.Namespace, report.Claim)
		if report.Verdict != Allocated || claim == nil || claim.Status.Allocation.NodeSelector == nil || len(w.Nodes) == 0 {
			continue
		}
		affinity, reachable := nodeaffinity.GetRequiredNodeAffinity(pod), false
		var nodes []string
		for _, node := range w.Nodes {
			if !placement.Matches(node, nil, nil, claim.Status.Allocation.NodeSelector) {
				continue
			}
			nodes = append(nodes, node.Name)
			ok, err := affinity.Match(node)
			reachable = reachable || ok && err == nil
		}
		if reachable {
			continue
		}
		c := Cause{Kind: WrongNode, Claim: claim.Name, Sufficient: true, Devices: len(claim.Status.Allocation.Devices.Results)}
		c.Message = fmt.Sprintf("claim %s is allocated on %s, where the pod cannot run", claim.Name, list(nodes, 3))
		switch {
		case len(pod.Spec.NodeSelector) > 0 && !requiredAffinity(pod):
			c.Message += " (nodeSelector " + labelText(pod.Spec.NodeSelector) + ")"
			editNodes(&c, pod, "remove the node selector", func(s *corev1.PodSpec) { s.NodeSelector = nil })
		case requiredAffinity(pod):
			c.Remedy = "correct the node affinity of the pod, or end the other pods of the claim"
		}
		all = append(all, c)
	}
	return all
}

// binding are the conditions that drivers have not set on allocated devices.
func (w Cluster) binding(a *Answer, pod *corev1.Pod) (all []Cause) {
	for _, report := range a.Claims {
		claim := w.claim(pod.Namespace, report.Claim)
		if report.Verdict != Allocated || claim == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if c, waits := unbound(claim, r); waits {
				all = append(all, c)
			}
		}
	}
	return all
}

func unbound(claim *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) (Cause, bool) {
	device := r.Device + " of pool " + r.Pool
	c := Cause{Kind: BindingCondition, Claim: claim.Name, Devices: 1}
	for _, name := range r.BindingFailureConditions {
		if hasCondition(claim, r, name) {
			c.Message = fmt.Sprintf("driver %s reports the failure %s of %s", r.Driver, name, device)
			c.Remedy = "kube-scheduler selects another device; the log of the driver has the reason"
			return c, true
		}
	}
	var missing []string
	for _, name := range r.BindingConditions {
		if !hasCondition(claim, r, name) {
			missing = append(missing, name)
		}
	}
	c.Message = fmt.Sprintf("%s is allocated, but driver %s has not reported its binding condition %s", device, r.Driver, list(missing, 4))
	c.Remedy = fmt.Sprintf("the driver must set the condition to True in the status of claim %s; its log has the reason why it does not", claim.Name)
	return c, len(missing) > 0
}

func hasCondition(claim *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult, name string) bool {
	for _, d := range claim.Status.Devices {
		if d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device {
			return slices.ContainsFunc(d.Conditions, func(c metav1.Condition) bool { return c.Type == name && c.Status == metav1.ConditionTrue })
		}
	}
	return false
}
