package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// creationFailed is the reason of the event about a claim that kube-controller-manager
// cannot create.
const creationFailed = "FailedResourceClaimCreation"

// prepareFailed is the reason of the event about devices that the kubelet cannot prepare.
const prepareFailed = "FailedPrepareDynamicResources"

// notMade explains a claim that kube-controller-manager has not created from its template.
func (w Cluster) notMade(pod *corev1.Pod, reference *corev1.PodResourceClaim) Explanation {
	report := Explanation{Namespace: pod.Namespace, Claim: reference.Name, Verdict: NotMade, Message: "kube-controller-manager has not created the claim", Notes: slices.Clone(w.Notes)}
	c := Cause{Kind: CreationFailed, Claim: reference.Name, Message: "kube-controller-manager has not created the claim of the pod yet", Remedy: "check that kube-controller-manager runs"}
	reported, prefix := false, "PodResourceClaim "+reference.Name+": "
	for _, e := range w.Events {
		if message, ok := strings.CutPrefix(e.Message, prefix); ok && about(e, pod, creationFailed) {
			report.Message, reported = message, true
			c.Message, c.Remedy = "kube-controller-manager cannot create the claim: "+message, ""
		}
	}
	template := ""
	if reference.ResourceClaimTemplateName != nil {
		template = *reference.ResourceClaimTemplateName
	}
	var templates []string
	for _, t := range w.Templates {
		templates = append(templates, t.Name)
	}
	slices.Sort(templates)
	quota := exceeded().FindStringSubmatch(report.Message)
	switch {
	case !slices.Contains(templates, template) && (!w.NoTemplates && !reported || strings.Contains(report.Message, fmt.Sprintf("resource claim template %q", template))):
		c = w.templateMissing(pod, reference.Name, template, templates)
	case quota != nil:
		c.Kind, c.Message = QuotaExceeded, fmt.Sprintf("ResourceQuota %s refuses the claim: requested %s, used %s, limited to %s", quota[1], quota[2], quota[3], quota[4])
		c.Remedy = "raise the quota, or delete what uses it"
		c.Command = raise(pod.Namespace, quota)
	case strings.Contains(report.Message, resourceapi.DRAAdminNamespaceLabelKey):
		c.Kind = AdminAccessRefused
		c.Message = fmt.Sprintf("ResourceClaimTemplate %s requests admin access, which namespace %s is not allowed to", template, pod.Namespace)
		c.Remedy = "label the namespace"
		c.Command = fmt.Sprintf("kubectl label namespace %s %s=true", word(pod.Namespace), resourceapi.DRAAdminNamespaceLabelKey)
	}
	report.Causes = []Cause{c}
	return report
}

func (w Cluster) templateMissing(pod *corev1.Pod, reference, template string, templates []string) Cause {
	c := Cause{Kind: TemplateMissing, Claim: reference, Remedy: fmt.Sprintf("create ResourceClaimTemplate %s in namespace %s", template, pod.Namespace)}
	c.Message = fmt.Sprintf("ResourceClaimTemplate %s does not exist%s", template, didYouMean(template, templates))
	if near := nearest(template, templates); near != "" {
		i := slices.IndexFunc(pod.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool { return r.Name == reference })
		editPod(&c, pod, "use "+near, func(s *corev1.PodSpec) { s.ResourceClaims[i].ResourceClaimTemplateName = &near })
	}
	return c
}

// exceeded recognizes the refusal of a ResourceQuota.
func exceeded() *regexp.Regexp {
	return regexp.MustCompile(`exceeded quota: ([^,]+), requested: (\S+), used: (\S+), limited: (\S+)`)
}

// raise returns the command that raises a quota by what is requested, "" if a number cannot be read: whoever writes events
// can write any.
func raise(namespace string, quota []string) string {
	hard := map[string]string{}
	used, wrong := amounts(quota[3])
	all, alsoWrong := amounts(quota[2])
	if wrong != nil || alsoWrong != nil {
		return ""
	}
	for name, requested := range all {
		requested.Add(used[name])
		hard[name] = requested.String()
	}
	return mergePatch("resourcequota", namespace, quota[1], map[string]any{"spec": map[string]any{"hard": hard}})
}

// amounts parses "name=quantity,name=quantity".
func amounts(text string) (map[string]resource.Quantity, error) {
	all := map[string]resource.Quantity{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		amount, err := quantity.Parse(value)
		if err != nil {
			return nil, err
		}
		all[name] = amount
	}
	return all, nil
}

// missing explains a claim that the pod names and that does not exist.
func (w Cluster) missing(pod *corev1.Pod, reference *corev1.PodResourceClaim, name string) Explanation {
	report := Explanation{Namespace: pod.Namespace, Claim: name, Verdict: NotMade, Message: fmt.Sprintf("claim %s does not exist", name), Notes: slices.Clone(w.Notes)}
	var names []string
	for _, claim := range w.Claims {
		if claim.Namespace == pod.Namespace {
			names = append(names, claim.Name)
		}
	}
	slices.Sort(names)
	c := Cause{Kind: ClaimMissing, Claim: name, Remedy: fmt.Sprintf("create ResourceClaim %s in namespace %s", name, pod.Namespace)}
	c.Message = fmt.Sprintf("ResourceClaim %s does not exist%s", name, didYouMean(name, names))
	switch near := nearest(name, names); {
	case reference == nil || reference.ResourceClaimTemplateName != nil:
		c.Remedy, c.Command = "create the pod again: it gets another claim", again(pod)
	case near != "":
		i := slices.IndexFunc(pod.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool { return r.Name == reference.Name })
		editPod(&c, pod, "use "+near, func(s *corev1.PodSpec) { s.ResourceClaims[i].ResourceClaimName = &near })
	}
	report.Causes = []Cause{c}
	return report
}

// leaving is that of a claim that is being deleted: kube-scheduler does not place a pod that names it. pod may be nil.
func leaving(claim *resourceapi.ResourceClaim, pod *corev1.Pod) Cause {
	c := Cause{Kind: ClaimMissing, Claim: claim.Name, Message: fmt.Sprintf("ResourceClaim %s is being deleted, used by %s", claim.Name, consumers(claim))}
	switch {
	case pod != nil && metav1.IsControlledBy(claim, pod):
		c.Remedy, c.Command = "create the pod again: it gets another claim", again(pod)
	case len(claim.Status.ReservedFor) > 0:
		c.Remedy = "end the pods that use it, and create the claim again when it is gone"
	default:
		c.Remedy = "create the claim again when it is gone"
		if len(claim.Finalizers) > 0 {
			c.Remedy += "; the finalizers that hold it are " + list(claim.Finalizers, 3)
		}
	}
	return c
}

// about reports whether an event with a reason is about a pod.
func about(e *corev1.Event, pod *corev1.Pod, reason string) bool {
	return e.Reason == reason && e.InvolvedObject.Namespace == pod.Namespace && e.InvolvedObject.Name == pod.Name &&
		(e.InvolvedObject.UID == pod.UID || pod.UID == "")
}
