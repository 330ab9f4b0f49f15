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
func (s *Snapshot) Named(namespace, argument string) (*resourceapi.ResourceClaim, *corev1.Pod, error) {
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
		for _, claim := range s.Claims {
			if claim.Name == name && cmp.Or(claim.Namespace, "default") == namespace {
				return claim, nil, nil
			}
		}
	}
	if !isClaim {
		for _, pod := range s.Pods {
			if pod.Name == name && cmp.Or(pod.Namespace, "default") == namespace {
				return nil, pod, nil
			}
		}
	}
	message := fmt.Sprintf("no claim and no pod %q in namespace %q", name, namespace)
	if prefixed {
		message = fmt.Sprintf("%s %q not found in namespace %q", kind, name, namespace)
	}
	return nil, nil, errors.New(strings.Join(append([]string{message}, s.Notes...), "; "))
}

// UsersOf returns the pods that name a claim, those that wait for a node first.
func (s *Snapshot) UsersOf(claim *resourceapi.ResourceClaim) (pods []*corev1.Pod) {
	for _, pod := range s.Pods {
		if pod.Namespace == claim.Namespace && uses(pod, claim.Name) {
			pods = append(pods, pod)
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return pods
}

// uses reports whether a pod names a claim, or has it for its extended resources.
func uses(pod *corev1.Pod, claim string) bool {
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName == claim {
		return true
	}
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(reference corev1.PodResourceClaim) bool {
		name, _, err := resourceclaim.Name(pod, &reference)
		return err == nil && name != nil && *name == claim
	})
}
