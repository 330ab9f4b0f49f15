package placement

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// restarted adds the pods that keep running, land before the change, and would not after it.
func (c Cluster) restarted(ctx context.Context, change Change, answer *Answer) error {
	before, after := c.Begin(), change.After.Begin()
	before.quiet = true
	leaving := map[types.UID]bool{}
	for _, l := range change.Leaving {
		leaving[uidOf(l.Pod)] = true
	}
	p := &prediction{moves: map[types.UID]*Move{}}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || Finished(pod) || leaving[uidOf(pod)] || !hasClaims(pod) {
			continue
		}
		r, err := after.createdAgain(ctx, pod)
		if err != nil {
			return err
		}
		if r.Lands() {
			continue
		}
		earlier, err := before.createdAgain(ctx, pod)
		if err != nil {
			return err
		}
		if earlier.Lands() {
			m := p.add(pod, pod, 0)
			m.Verdict, m.Reason = p.verdict(uidOf(pod), r)
			m.IfRestarted, m.Unchecked = true, r.Unknown
			answer.Moves = append(answer.Moves, *m)
		}
	}
	return nil
}

func hasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// createdAgain returns where a pod lands if it is created again, first on its node. Nothing is
// changed.
func (s *Simulation) createdAgain(ctx context.Context, pod *corev1.Pod) (r Result, err error) {
	uid := uidOf(pod)
	known := s.misses
	kept := map[types.NamespacedName]*resourceapi.ResourceClaim{}
	for name := range claimsOf(pod) {
		if claim := s.claims[name]; claim != nil {
			kept[name] = claim
		}
	}
	s.Remove(pod)
	next := created(pod)
	next.Spec.NodeName = pod.Spec.NodeName
	if r, err = s.Fits(ctx, next); err == nil && !r.Lands() {
		next.Spec.NodeName = ""
		r, err = s.Fits(ctx, next)
	}
	for name, claim := range kept {
		now := s.claims[name]
		if now == nil || now.Status.Allocation == nil {
			s.devices.take(claim.Status.Allocation)
		}
	}
	maps.Copy(s.claims, kept)
	s.pods[uid] = pod
	s.use(pod.Spec.NodeName, pod, 1)
	s.misses = known
	return r, err
}
