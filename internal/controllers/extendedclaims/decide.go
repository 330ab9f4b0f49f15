// Package extendedclaims creates an event on a pod whose claim for extended resources is refused.
//
// The scheduler creates that claim, and its writes are never denied: it would retry them
// forever. The webhook checks the pod instead, when it is created. A pod that is created while no
// replica of the webhook answers passes unchecked; its author learns from the event. The author of a
// pod and the age of rules are not known here: pods of exempt authors, and those that are older than a
// rule, have the event, too.
package extendedclaims

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Reason is that of the event.
	Reason = "ExtendedResourcesRefused"
	// Component is the source of the event.
	Component = "dra-steward-extended-resources"
	// longest is the size in bytes up to which API servers accept the message of an event.
	longest = 1024
)

// A Refusal is one reason for which a claim is refused.
type Refusal struct {
	// Code is that of the policy or the ID of the rule.
	Code string
	// Text is the problem and its place in the claim.
	Text string
}

// Asks returns the name of the claim that the scheduler created for the extended resources of a
// pod, empty if there is none.
func Asks(pod *corev1.Pod) string {
	if pod.Status.ExtendedResourceClaimStatus == nil {
		return ""
	}
	return pod.Status.ExtendedResourceClaimStatus.ResourceClaimName
}

// Belongs reports whether the scheduler created a claim for the extended resources of a pod.
func Belongs(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return claim.Name == Asks(pod) && claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && metav1.IsControlledBy(claim, pod)
}

// Decide returns the event on a pod whose claim is refused, nil if it is not. A pod has one such
// event, however often it is decided.
func Decide(pod *corev1.Pod, claim string, refusals []Refusal, now metav1.Time) *corev1.Event {
	if len(refusals) == 0 {
		return nil
	}
	first := refusals[0]
	message := fmt.Sprintf("%s refuses the claim %s for the extended resources of this pod: %s", first.Code, claim, inPod(first.Text, pod.Status.ExtendedResourceClaimStatus))
	if others := len(refusals) - 1; others > 0 {
		message += fmt.Sprintf(" (and %d more)", others)
	}
	const remedy = ". Unless its author is exempt or the rule is newer than the pod, the webhook did not check the pod: delete it, and create it with resources that are allowed"
	if most := longest - len(remedy); len(message) > most {
		message = strings.ToValidUTF8(message[:most-len("…")], "") + "…"
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: eventName(pod)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Type:           corev1.EventTypeWarning, Reason: Reason, Message: strings.TrimSuffix(message, ".") + remedy,
		Source: corev1.EventSource{Component: Component}, ReportingController: Component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// eventName is the same for each event on a pod, so that a second one is refused as a duplicate.
func eventName(pod *corev1.Pod) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(pod.UID)) // never fails
	return fmt.Sprintf("%.200s.%x", pod.Name, hash.Sum64())
}

// inPod names the containers of a pod in place of the requests of its claim.
func inPod(text string, status *corev1.PodExtendedResourceClaimStatus) string {
	if status == nil {
		return text
	}
	for _, m := range status.RequestMappings {
		text = strings.ReplaceAll(text, "spec.devices.requests["+m.RequestName+"]", fmt.Sprintf("resources.requests[%s] of container %s", m.ResourceName, m.ContainerName))
	}
	return text
}
