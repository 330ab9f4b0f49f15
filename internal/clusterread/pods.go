package clusterread

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Named finds what the argument names: a claim, or else a pod.
func (l *Snapshot) Named(namespace, argument string) (*resourceapi.ResourceClaim, *corev1.Pod, error) {
	kind, name, prefixed := strings.Cut(argument, "/")
	if !prefixed {
		kind, name = "", argument
	}
	isClaim := slices.Contains([]string{"claim", "resourceclaim", "resourceclaims"}, kind)
	isPod := slices.Contains([]string{"pod", "pods", "po"}, kind)
	if prefixed && !isClaim && !isPod {
		return nil, nil, fmt.Errorf("%q: must be claim/NAME, pod/NAME or NAME", argument)
	}
	if !isPod {
		for _, claim := range l.Claims {
			if claim.Name == name && cmp.Or(claim.Namespace, "default") == namespace {
				return claim, nil, nil
			}
		}
	}
	if !isClaim {
		for _, pod := range l.Pods {
			if pod.Name == name && cmp.Or(pod.Namespace, "default") == namespace {
				return nil, pod, nil
			}
		}
	}
	message := fmt.Sprintf("no claim and no pod %q in namespace %q", name, namespace)
	if prefixed {
		message = fmt.Sprintf("%s %q not found in namespace %q", kind, name, namespace)
	}
	return nil, nil, errors.New(strings.Join(append([]string{message}, l.Notes...), "; "))
}

// A PodClaim is a claim of a pod; Missing says why there is none.
type PodClaim struct {
	Name    string
	Claim   *resourceapi.ResourceClaim
	Missing string
}

func (l *Snapshot) ClaimsOf(pod *corev1.Pod) (all []PodClaim) {
	add := func(reference, name string) {
		c := PodClaim{Name: name, Missing: fmt.Sprintf("claim %s does not exist", name)}
		for _, claim := range l.Claims {
			if claim.Name == name && claim.Namespace == pod.Namespace {
				c.Claim = claim
			}
		}
		if name == "" {
			c.Name, c.Missing = reference, "kube-controller-manager has not created the claim yet: see the events of the pod"
		}
		all = append(all, c)
	}
	for i := range pod.Spec.ResourceClaims {
		reference := &pod.Spec.ResourceClaims[i]
		switch name, _, err := resourceclaim.Name(pod, reference); {
		case err != nil, name == nil && hasStatus(pod, reference.Name): // none is needed
		case name == nil:
			add(reference.Name, "")
		default:
			add(reference.Name, *name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		add("", extended.ResourceClaimName)
	}
	return all
}

// hasStatus tells whether the controller has decided about a reference.
func hasStatus(pod *corev1.Pod, reference string) bool {
	return slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == reference })
}

// UsersOf returns the pods that name a claim, those that wait for a node first.
func (l *Snapshot) UsersOf(claim *resourceapi.ResourceClaim) (pods []*corev1.Pod) {
	for _, pod := range l.Pods {
		for _, reference := range l.ClaimsOf(pod) {
			if reference.Claim == claim {
				pods = append(pods, pod)
				break
			}
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return pods
}
