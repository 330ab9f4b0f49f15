package evictor

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Prober asks the controller in kube-controller-manager for a sign of life.
type Prober interface {
	// Probe returns whether there was an answer within [ProbeAnswer]. An error is no
	// answer, and not the lack of one either: nobody could ask.
	Probe(context.Context) (answered bool, err error)
}

// probe asks again and again, and looks whether pods are left alone that the other
// controller would have evicted.
func (c *Controller) probe(ctx context.Context) {
	for {
		answered, err := c.options.Prober.Probe(ctx)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		c.coexistence(func(o *Coexistence) {
			switch {
			case err != nil:
			case answered:
				o.Seen(RuleSource)
			default:
				o.Unanswered(RuleSource, now)
			}
			for source, left := range c.leftAlone(now) {
				if left {
					o.Unanswered(source, now)
				}
			}
		})
		if err != nil {
			c.options.Logger.V(1).Info("Asking for the other controller failed", "error", err.Error())
		}
		wait := time.NewTimer(ProbePeriod)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// coexistence changes what is known of the other controller, and what is ours with it.
func (c *Controller) coexistence(learn func(*Coexistence)) {
	var before, after Coexistence
	c.finish(func() {
		before = c.coexist
		learn(&c.coexist)
		after = c.coexist
	})
	if before.Shares() == after.Shares() {
		return
	}
	shares := after.Shares()
	c.options.Logger.Info("What kube-controller-manager evicts has changed", "slices", after.slices.presence.String(), "rules", after.rules.presence.String())
	c.options.Metrics.inTree(after)
	c.report(corev1.EventTypeNormal, "ModeChanged", "The controller in kube-controller-manager is "+
		after.slices.presence.String()+" for taints in slices, and "+after.rules.presence.String()+" for DeviceTaintRules.")
	c.look(func(o *outlook) { o.shares = shares })
}

// leftAlone says for which sources there are pods without extended resources that have
// been due, and known to be, for so long that the other controller would have evicted
// them. Such a pod is a probe that nobody had to make. The mutex is held.
func (c *Controller) leftAlone(now time.Time) map[Source]bool {
	left := map[Source]bool{}
	for known := range c.cases.all() {
		if known.stage == done || known.stage == acting {
			continue
		}
		for _, r := range known.verdict.verdict().Reasons {
			due := r.At
			if seen := c.cases.clock.time(known.seen); seen.After(due) {
				due = seen
			}
			if !r.ExtendedResource && now.Sub(due) >= ProbeAnswer && !known.taken {
				left[sourceOf(r)] = true
			}
		}
	}
	return left
}

func sourceOf(r Reason) Source {
	if r.Taint.FromRule() {
		return RuleSource
	}
	return SliceSource
}

// notice learns from a pod which the other controller evicts. Old conditions say
// nothing: whoever wrote them can be gone. The mutex is held.
func (c *Controller) notice(pod *corev1.Pod, now time.Time) (seen bool) {
	condition := disruption(pod)
	if known := c.cases.of(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}); known != nil && known.uid == pod.UID {
		known.taken = disrupted(pod)
	}
	return c.options.Mode == ModeAuto && condition != nil && condition.Reason == inTreeReason &&
		now.Sub(condition.LastTransitionTime.Time) < ProbeSpan
}

// noticeRule learns from the status of a rule, which the other controller writes.
func (c *Controller) noticeRule(before, after *resourceapi.DeviceTaintRule, wrote *metav1.Condition) bool {
	if c.options.Mode != ModeAuto || before == nil || after == nil {
		return false
	}
	had := findCondition(before, resourceapi.DeviceTaintConditionEvictionInProgress)
	has := findCondition(after, resourceapi.DeviceTaintConditionEvictionInProgress)
	return has != nil && !sameCondition(had, has) && !sameCondition(wrote, has)
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration &&
		strings.TrimSpace(a.Message) == strings.TrimSpace(b.Message) && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}
