package devicedrain

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/targets"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// find evaluates the selector of a drain that is not resolved yet. The caller does not hold
// deciding: other drains do not wait for a costly selector.
func (c *Controller) find(ctx context.Context, name string) (drain.Find, error) {
	var d *v1alpha1.DeviceDrain
	c.locked(func() { d = c.newest(name) })
	if d == nil || !drain.Selects(d) {
		return notFound, nil
	}
	var failed error
	within := func(selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice]) patch.Selection {
		found, err := c.selector.Select(ctx, selector, all, patch.SelectionCost)
		failed = cmp.Or(failed, err)
		return found
	}
	found := targets.Select(within, d.Spec.Selector, c.options.Tracker.Snapshot().PublishedSlices(), c.options.Usage)
	if failed != nil {
		return nil, fmt.Errorf("the selector is not evaluated: %w", failed)
	}
	return func(selector *v1alpha1.DrainSelector) targets.Found {
		if !equality.Semantic.DeepEqual(selector, d.Spec.Selector) {
			return notFound(selector)
		}
		return found
	}, nil
}

// notFound is the answer for a selector that is changed meanwhile: the next step evaluates it.
func notFound(*v1alpha1.DrainSelector) targets.Found {
	return targets.Found{Selection: patch.Selection{Failures: patch.Failures{Devices: 1, Expensive: true, First: "it is not evaluated yet"}}}
}

// gather finds out what there is to decide about.
func (c *Controller) gather(d *v1alpha1.DeviceDrain, find drain.Find, now time.Time) drain.Input {
	in := drain.Gather(d, c.options.Tracker.Snapshot(), c.options.Usage, find)
	in.Now, in.Settings, in.Thresholds = now, c.options.Settings, c.options.Thresholds
	in.CannotCordon = c.refused(now)
	in.Outcomes, in.Evicting, in.Refusals = c.answers.outcomes[d.Name], c.answers.evicting, c.answers.refusals
	in.Evicted = c.answers.evicted[d.Name]
	in.Asked, in.Spent = c.askedByOthers(d.Name, now), c.spent()
	in.Rules = drain.Rules(d, in.Devices, c.storedRules())
	return in
}

// askedByOthers are the pods that other drains evict now: those of steps in progress, and
// those in the status of a drain whose step has ended, or ended with another process, which
// the next step of that drain counts.
func (c *Controller) askedByOthers(name string, now time.Time) map[types.UID]bool {
	asked := map[types.UID]bool{}
	for other, pods := range c.asking {
		for _, pod := range pods {
			asked[pod.UID] = asked[pod.UID] || other != name
		}
	}
	for _, other := range c.informer.GetStore().ListKeys() {
		if other == name {
			continue
		}
		d := c.newest(other)
		if d == nil {
			continue
		}
		for _, request := range d.Status.Requested {
			asked[request.UID] = asked[request.UID] || request.Fallback == ""
		}
		if d.Status.LastEvictionTime == nil || now.Sub(d.Status.LastEvictionTime.Time) > 2*stepTimeout {
			continue // its status is probably not writable: other drains continue after a while
		}
		for _, pod := range d.Status.Evicting {
			asked[pod.UID] = true
		}
	}
	return asked
}

// spent counts the evictions that the status of their budget does not show yet: those in
// progress, and those that were accepted. Without it drains that share a budget would all
// spend what it allows.
func (c *Controller) spent() map[types.UID]int {
	pods := map[types.UID]types.NamespacedName{}
	for uid := range c.answers.evicting {
		if _, again := c.answers.again[uid]; again {
			continue // its budget counted it when it began to terminate
		}
		pods[uid] = c.answers.names[uid]
	}
	for _, asking := range c.asking {
		for _, pod := range asking {
			pods[pod.UID] = podName(pod.Namespace, pod.Name)
		}
	}
	spent := map[types.UID]int{}
	for uid, name := range pods {
		pod := c.options.Usage.Pod(name.Namespace, name.Name)
		if pod == nil || pod.UID != uid || pod.Status.Phase == corev1.PodPending {
			continue
		}
		for _, budget := range c.options.Usage.Budgets(pod) {
			if _, shown := budget.Status.DisruptedPods[pod.Name]; !shown && !drain.Free(drain.Pod{Pod: pod}, budget) {
				spent[budget.UID]++
			}
		}
	}
	return spent
}

// storedRules are all DeviceTaintRules.
func (c *Controller) storedRules() iter.Seq[*resourceapi.DeviceTaintRule] {
	return func(yield func(*resourceapi.DeviceTaintRule) bool) {
		for _, object := range c.options.TaintRules.GetStore().List() {
			if rule, ok := object.(*resourceapi.DeviceTaintRule); ok && !yield(rule) {
				return
			}
		}
	}
}
