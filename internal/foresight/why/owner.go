package why

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
)

// An owner is the workload from whose template a controller creates a pod: a changed or
// deleted pod is created again as it was. The resource is empty if the author of the pod wrote
// what cannot be an owner: the API server checks little of an owner reference, and a command
// with it would be the author's.
type owner struct{ kind, resource, namespace, name string }

// String is what people call it.
func (o owner) String() string { return o.kind + " " + o.name }

// object is what a command takes it by.
func (o owner) object() string {
	return o.resource + " " + word(o.name) + " -n " + word(o.namespace)
}

// ownerOf returns the owner of a pod; none for a pod that no controller creates again.
func ownerOf(pod *corev1.Pod) (o owner, owned bool) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return o, false
	}
	group, version, found := strings.Cut(ref.APIVersion, "/")
	if !found {
		group, version = "", ref.APIVersion
	}
	o = owner{kind: ref.Kind, resource: strings.ToLower(ref.Kind), namespace: pod.Namespace, name: ref.Name}
	switch {
	case !possible(ref.Kind, group, version, ref.Name):
		o.resource = ""
	case !o.known(group):
		o.resource = strings.TrimSuffix(ref.Kind+"."+version+"."+group, ".")
	}
	// A Deployment names its ReplicaSets by the hash that it gives the pods.
	if name, hashed := strings.CutSuffix(ref.Name, "-"+pod.Labels["pod-template-hash"]); hashed && o.resource == "replicaset" {
		o.kind, o.resource, o.name = "Deployment", "deployment", name
	}
	return o, true
}

// possible reports whether there can be an object of this kind and name.
func possible(kind, group, version, name string) bool {
	subdomain := func(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }
	label := func(text string) bool { return len(validation.IsDNS1035Label(text)) == 0 }
	return label(strings.ToLower(kind)) && label(version) && (group == "" || subdomain(group)) && subdomain(name)
}

// known reports whether it is a workload of Kubernetes itself.
func (o owner) known(group string) bool {
	switch group {
	case "apps":
		return slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet"}, o.kind)
	case "batch":
		return o.kind == "Job"
	}
	return group == "" && o.kind == "ReplicationController"
}

// editPod completes a cause with what changes a pod: the pod itself, or the template from
// which its owner creates it.
func editPod(c *Cause, pod *corev1.Pod, remedy string, change func(*corev1.PodSpec)) {
	changed := pod.DeepCopy()
	change(&changed.Spec)
	patch := difference(pod, changed)
	o, owned := ownerOf(pod)
	if !owned {
		c.Remedy, c.Command = remedy, fmt.Sprintf("kubectl patch pod %s -n %s -p %s", word(pod.Name), word(pod.Namespace), quote(marshal(patch)))+replaced
		return
	}
	c.Remedy = remedy + ", in the pod template of " + o.String()
	switch o.resource {
	case "job":
		c.Command = o.replaceJob(pod, patch)
		if name := o.cronJob(); name != "" {
			c.Remedy += "; if CronJob " + name + " makes these Jobs, change its spec.jobTemplate, too"
		}
	case "deployment":
		c.Command = o.patchTemplate(patch)
	case "replicaset", "replicationcontroller", "statefulset", "daemonset":
		c.Command = o.patchTemplate(patch) + " && " + again(pod) + " --ignore-not-found"
	case "":
		c.Command = ""
	default:
		c.Command = "kubectl edit " + o.object()
	}
}

// editNodes is editPod for the nodes on which a pod may run. Those of a DaemonSet are not
// for its pods to choose.
func editNodes(c *Cause, pod *corev1.Pod, remedy string, change func(*corev1.PodSpec)) {
	editPod(c, pod, remedy, change)
	if o, _ := ownerOf(pod); o.resource == "daemonset" {
		c.Remedy, c.Command = fmt.Sprintf("%s creates a pod for each of its nodes; restrict it to the nodes with the devices, in its pod template", o), ""
	}
}

func (o owner) patchTemplate(patch map[string]any) string {
	return "kubectl patch " + o.object() + " -p " + quote(marshal(map[string]any{"spec": map[string]any{"template": patch}}))
}

// replaceJob returns the command that replaces a Job, whose template is immutable. The API
// server has added the selector and labels, and refuses them in another Job.
func (o owner) replaceJob(pod *corev1.Pod, patch map[string]any) string {
	labels := map[string]any{}
	for _, label := range []string{"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"} {
		if _, generated := pod.Labels[label]; generated {
			labels[label] = nil
		}
	}
	template, spec := maps.Clone(patch), map[string]any{}
	if template == nil {
		template = map[string]any{}
	}
	if len(labels) > 0 {
		template["metadata"] = map[string]any{"labels": labels}
		spec["selector"] = nil
	}
	spec["template"] = template
	return "kubectl patch " + o.object() + " -p " + quote(marshal(map[string]any{"spec": spec})) + replaced
}

// cronJob is the name of the CronJob whose Jobs have such names: the controller of CronJobs ends
// them with the minutes from 1970 to their time. It is empty for other names.
func (o owner) cronJob() string {
	at := strings.LastIndex(o.name, "-")
	if at < 0 {
		return ""
	}
	minutes := o.name[at+1:]
	if _, err := strconv.ParseUint(minutes, 10, 32); err != nil || len(minutes) != len("29391840") {
		return ""
	}
	return o.name[:at]
}

// again returns the command that creates a pod again, with other claims.
func again(pod *corev1.Pod) string {
	at := word(pod.Name) + " -n " + word(pod.Namespace)
	o, owned := ownerOf(pod)
	switch {
	case !owned:
		return "kubectl get pod " + at + " -o yaml | kubectl replace --force -f -"
	case o.resource == "job": // to it, a deleted pod is one that failed
		return o.replaceJob(pod, nil)
	}
	return "kubectl delete pod " + at
}

// difference is what a strategic merge patch says about a changed pod. It names containers
// and claims, so that it fits a template with fewer of them.
func difference(pod, changed *corev1.Pod) (patch map[string]any) {
	before, err := json.Marshal(pod)
	if err != nil {
		return nil
	}
	after, err := json.Marshal(changed)
	if err != nil {
		return nil
	}
	text, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil || json.Unmarshal(text, &patch) != nil {
		return nil
	}
	withoutDirectives(patch)
	return patch
}

// withoutDirectives removes what is about the order of lists, and about keys that are named
// anyway.
func withoutDirectives(value any) {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, _ any) bool {
			return key == "$retainKeys" || strings.HasPrefix(key, "$setElementOrder/")
		})
		for _, part := range v {
			withoutDirectives(part)
		}
	case []any:
		for _, part := range v {
			withoutDirectives(part)
		}
	}
}
