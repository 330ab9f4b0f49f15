package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// holding are the pods for which a claim is reserved, as far as they can be read.
func (q *question) holding(claim *resourceapi.ResourceClaim) (pods []*corev1.Pod) {
	for _, pod := range q.cluster.Pods {
		if pod.Namespace == claim.Namespace && slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
			return r.APIGroup == "" && r.Resource == "pods" && r.Name == pod.Name
		}) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// related reports whether the owner of the waiting pod owns one of the pods.
func (q *question) related(pods []*corev1.Pod) bool {
	if q.pod == nil {
		return false
	}
	own, owned := ownerOf(q.pod)
	return owned && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		o, _ := ownerOf(pod)
		return o == own
	})
}

// end returns what ends the use of a claim.
func (q *question) end(holder *resourceapi.ResourceClaim) (remedy, command string) {
	var names []string
	for _, r := range holder.Status.ReservedFor {
		if r.APIGroup != "" || r.Resource != "pods" {
			return "wait until " + consumers(holder) + " ends", ""
		}
		names = append(names, word(r.Name))
	}
	pods := q.holding(holder)
	i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { _, owned := ownerOf(pod); return owned })
	switch {
	case len(names) == 0:
		return "no pod uses that claim: delete it", "kubectl delete resourceclaim " + word(holder.Name) + " -n " + word(holder.Namespace)
	case q.related(pods):
		return q.share(pods)
	case i >= 0:
		return q.stop(holder, pods, i)
	case len(names) > 5:
		return fmt.Sprintf("wait until the %d pods of that claim end", len(names)), ""
	}
	return "wait until that pod ends, or delete it", "kubectl delete pod " + strings.Join(names, " ") + " -n " + word(holder.Namespace)
}

// share returns what lets the waiting pod have the devices of other pods of its owner. A
// Deployment that replaces its pods one by one starts the new pod before it ends the old.
func (q *question) share(pods []*corev1.Pod) (remedy, command string) {
	o, _ := ownerOf(q.pod)
	hash := func(pod *corev1.Pod) string { return pod.Labels["pod-template-hash"] }
	if o.resource == "deployment" && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return hash(pod) != hash(q.pod) }) {
		return o.String() + " is being rolled out, and its old pod has the device: end old pods before it starts new ones",
			"kubectl patch " + o.object() + ` -p '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'`
	}
	return o.String() + " has more pods than there are devices: let it have fewer, or wait for devices", ""
}

// stop returns what ends pods that their owners would create again.
func (q *question) stop(holder *resourceapi.ResourceClaim, pods []*corev1.Pod, i int) (remedy, command string) {
	o, _ := ownerOf(pods[i])
	all, wait := q.podsOf(o), "wait until that pod ends"
	if len(holder.Status.ReservedFor) > 1 {
		wait = "wait until those pods end"
	}
	// The owner alone can end the use if its pods are all that use the claim.
	alone := len(pods) == len(holder.Status.ReservedFor) && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !slices.Contains(all, pod) })
	switch {
	case o.resource == "job" && alone:
		return fmt.Sprintf("%s, or suspend %s with its %s", wait, o, plural.Of(len(all), "pod")), "kubectl patch " + o.object() + ` --type=merge -p '{"spec":{"suspend":true}}'`
	case !slices.Contains([]string{"deployment", "replicaset", "replicationcontroller", "statefulset"}, o.resource):
		return fmt.Sprintf("%s; %s creates deleted pods again", wait, o), ""
	case !alone || len(all) != len(pods):
		return fmt.Sprintf("%s, or let %s have fewer than its %s", wait, o, plural.Of(len(all), "pod")), ""
	}
	return fmt.Sprintf("%s, or scale %s to 0", wait, o), fmt.Sprintf("kubectl scale %s --current-replicas=%d --replicas=0", o.object(), len(all))
}

// podsOf are the pods of an owner that have not ended.
func (q *question) podsOf(o owner) (pods []*corev1.Pod) {
	for _, pod := range q.cluster.Pods {
		if other, owned := ownerOf(pod); owned && other == o && pod.DeletionTimestamp == nil && !hasEnded(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}
