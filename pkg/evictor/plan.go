package evictor

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A plan is the part of a verdict that is for us to carry out.
type plan struct {
	Verdict
	// held are the reasons that would be ours and wait for a confirmation.
	held Verdict
	// shares are what it was made by.
	shares Shares
}

func (p plan) equal(q plan) bool {
	return p.shares == q.shares && p.Equal(q.Verdict) && p.held.Equal(q.held)
}

// whole says whether all reasons of a verdict are for us, which are then one list for both.
func (p plan) whole(v Verdict) bool {
	return len(p.Reasons) == len(v.Reasons) && (len(v.Reasons) == 0 || &p.Reasons[0] == &v.Reasons[0])
}

// outlook is what a plan is made by, beside the verdict.
type outlook struct {
	shares Shares
	// since is when the controller was first started: older taints wait for a
	// confirmation, so that installing evicts nobody.
	since time.Time
	// confirmed says whether somebody has confirmed a rule.
	confirmed func(Rule) bool
}

func (o outlook) plan(pod *corev1.Pod, verdict Verdict) plan {
	p := plan{shares: o.shares}
	taken := disrupted(pod)
	for _, r := range verdict.Reasons {
		switch share := o.shares.of(r); {
		case share == ShareNone || share == ShareMissed && taken:
		case r.began().Before(o.since) && !(r.Taint.FromRule() && o.confirmed != nil && o.confirmed(r.Taint.Rule)):
			p.held.Reasons = append(p.held.Reasons, r)
		default:
			p.Reasons = append(p.Reasons, r)
		}
	}
	if p.held = p.held.settled(); len(p.Reasons) == len(verdict.Reasons) {
		p.Verdict = verdict // one list for both
	} else {
		p.Verdict = p.settled()
	}
	return p
}

// begin is when to carry the plan out if it has been known since a time: where it is for
// what others miss, these have time to act first.
func (p plan) begin(since time.Time) time.Time {
	var first time.Time
	for _, r := range p.Reasons {
		at := r.At
		if since.After(at) {
			at = since
		}
		if p.shares.of(r) == ShareMissed {
			at = at.Add(SupplementGrace)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// began is when the taint was added, as far as that is known.
func (r Reason) began() time.Time {
	if !r.Taint.TimeAdded.IsZero() {
		return r.Taint.TimeAdded.Time
	}
	if !r.Taint.Since.IsZero() {
		return r.Taint.Since
	}
	return r.At
}

// inTreeReason is the reason of the condition DisruptionTarget that the controller in
// kube-controller-manager gives (PodReasonDeletionByDeviceTaintManager in its source).
const inTreeReason = "DeletionByDeviceTaintManager"

// disrupted says whether somebody else is about to end the pod.
func disrupted(pod *corev1.Pod) bool {
	c := disruption(pod)
	return pod.DeletionTimestamp != nil || c != nil && c.Reason != DisruptionReason
}

// disruption is the condition that says that somebody is about to end the pod, nil if
// nobody is.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
