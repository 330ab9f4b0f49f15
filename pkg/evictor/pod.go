package evictor

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Claims looks up a claim by namespace and name, nil if there is none.
type Claims interface {
	Claim(namespace, name string) *resourceapi.ResourceClaim
}

// ClaimsFunc is a function as [Claims].
type ClaimsFunc func(namespace, name string) *resourceapi.ResourceClaim

// Claim calls the function.
func (f ClaimsFunc) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return f(namespace, name)
}

// Spared says why a pod is not evicted whatever the taints of its devices are. Empty
// means that it is not spared.
type Spared string

const (
	// SparedUnscheduled is a pod that is on no node yet. It uses no device, and the
	// scheduler decides anew.
	SparedUnscheduled Spared = "it is not scheduled"
	// SparedFinished is a pod that has succeeded or failed: its containers are gone,
	// though its claims can still be reserved for it.
	SparedFinished Spared = "it has finished"
	// SparedTerminating is a pod that is being deleted, by whomever.
	SparedTerminating Spared = "it is being deleted already"
)

// Spare says whether and why pod is spared.
func Spare(pod *corev1.Pod) Spared {
	switch {
	case pod.DeletionTimestamp != nil:
		return SparedTerminating
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return SparedFinished
	case pod.Spec.NodeName == "":
		return SparedUnscheduled
	}
	return ""
}

// DecidePod says when and why pod has to leave its devices: the earliest verdict of
// its claims, with the reasons of all. Nobody is evicted whom [Spare] spares.
func DecidePod(pod *corev1.Pod, claims Claims, taints Taints, settings Settings, now time.Time) Verdict {
	if Spare(pod) != "" {
		return Verdict{}
	}
	var verdicts []Verdict
	for _, used := range Used(pod, claims, settings) {
		verdicts = append(verdicts, used.verdict(Decide(used.ResourceClaim, taints, settings, now)))
	}
	return Merge(verdicts...)
}

// UsedClaim is a claim that a pod uses.
type UsedClaim struct {
	*resourceapi.ResourceClaim
	// ExtendedResource says that the scheduler made the claim for extended resources.
	ExtendedResource bool
}

func (u UsedClaim) verdict(v Verdict) Verdict {
	if !u.ExtendedResource {
		return v
	}
	for i := range v.Reasons {
		v.Reasons[i].ExtendedResource = true
	}
	return v
}

// Used returns the claims that pod uses: those that its spec names or that were made
// for it from templates, and the one for its extended resources. A claim made for a
// pod must be owned by this pod (or its PodGroup), and any claim must be reserved for
// it, both by UID: it may be a claim for another pod of the same name.
func Used(pod *corev1.Pod, claims Claims, settings Settings) (used []UsedClaim) {
	for use := range usage.Uses(pod, claims.Claim, !settings.IgnorePodGroups) {
		used = append(used, UsedClaim{ResourceClaim: use.Claim, ExtendedResource: use.ExtendedResource})
	}
	return used
}
