package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// block is why a pod cannot be evicted now, nil if it can be. With force only who came
// back is left alone: the deadline has passed.
func (d *Decision) block(in Input, pod *candidate, from time.Time, force bool) *v1alpha1.DrainBlock {
	if returned := d.returned(in, pod, from); returned != nil {
		return returned
	}
	if refused := d.refused(in, pod, force); refused != nil || force {
		return refused
	}
	if controllerOf(pod) == nil && in.Drain.Spec.PodsWithoutController != v1alpha1.EvictPods {
		return &v1alpha1.DrainBlock{Reason: v1alpha1.BlockedNoController}
	}
	if pod.Status.Phase == corev1.PodPending || len(pod.Budgets) == 0 || d.asks(in, pod.Pod) {
		return nil // of which budgets do not speak, or whose responders look at them
	}
	if len(pod.Budgets) > 1 {
		return &v1alpha1.DrainBlock{Reason: v1alpha1.BlockedManyBudgets, Budgets: budgetNames(pod)}
	}
	if Free(pod.Pod, pod.Budgets[0]) || allowance(pod.Budgets[0]) > 0 {
		return nil
	}
	return &v1alpha1.DrainBlock{Reason: v1alpha1.BlockedBudget, Budgets: budgetNames(pod)}
}

// refused blocks a pod about which the API server said no a short time ago. With force budgets do not
// count.
func (d *Decision) refused(in Input, pod *candidate, force bool) *v1alpha1.DrainBlock {
	refusal, refused := in.Refusals[pod.UID]
	if !refused || !refusal.Until.After(in.Now) || force && refusal.Budget {
		return nil
	}
	d.WakeAt(refusal.Until)
	if refusal.Budget {
		return &v1alpha1.DrainBlock{Reason: v1alpha1.BlockedBudget, Budgets: budgetNames(pod)}
	}
	return &v1alpha1.DrainBlock{Reason: v1alpha1.BlockedRefused, Message: condition.Bounded(refusal.Message, 512)}
}

// free reports whether a budget lets a pod go that is not ready, whatever it allows
// (spec.unhealthyPodEvictionPolicy).
func Free(pod Pod, budget *policyv1.PodDisruptionBudget) bool {
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return false
	}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
}

// allowance is how many evictions a budget allows now. One whose status is older than its
// spec allows none.
func allowance(budget *policyv1.PodDisruptionBudget) int {
	if budget.Status.ObservedGeneration < budget.Generation {
		return 0
	}
	return int(budget.Status.DisruptionsAllowed)
}

func budgetNames(pod *candidate) (names []string) {
	for _, budget := range pod.Budgets {
		names = append(names, budget.Name)
	}
	slices.Sort(names)
	return names[:min(len(names), 8)]
}

// The most that a status lists. A message explains maxNames blocks, too.
const (
	maxBlocks     = 64
	maxBlockBytes = 32 << 10
	maxNames      = 8
)

// listed are the first blocks, as many as a status has space for.
func listed(all []v1alpha1.DrainBlock) []v1alpha1.DrainBlock {
	bytes := 0
	for i, b := range all {
		bytes += 128 + len(b.Reason) + len(b.Namespace) + len(b.Claim) + len(b.Owner) + len(b.Message)
		for _, name := range slices.Concat(b.Pods, b.Budgets) {
			bytes += 3 + len(name)
		}
		if i == maxBlocks || bytes > maxBlockBytes {
			return all[:i]
		}
	}
	return all
}

// blocks groups what blocks: pods with the same reason, budgets and claim.
func (s survey) blocks() (all []v1alpha1.DrainBlock) {
	byKey := map[string]int{}
	for _, pod := range s.blocked {
		b := *pod.block
		b.Namespace = pod.Namespace
		if b.Owner == "" {
			b.Owner = ownerOf(pod)
		}
		key := strings.Join(append([]string{b.Reason, b.Namespace, b.Claim, b.Owner, b.Message}, b.Budgets...), "\x00")
		at, known := byKey[key]
		if !known {
			at = len(all)
			byKey[key] = at
			all = append(all, b)
		}
		all[at].Count++
		if len(all[at].Pods) < maxNames {
			all[at].Pods = append(all[at].Pods, pod.Name)
		}
	}
	all = append(all, s.claims...)
	slices.SortStableFunc(all, func(a, b v1alpha1.DrainBlock) int { return rank(a.Reason) - rank(b.Reason) })
	return all
}

// rank orders the reasons of blocks: what needs a person comes first.
func rank(reason string) int {
	return slices.Index([]string{
		v1alpha1.BlockedReused, v1alpha1.BlockedTolerated, v1alpha1.BlockedReallocated, v1alpha1.BlockedNoController,
		v1alpha1.BlockedManyBudgets, v1alpha1.BlockedRefused, v1alpha1.BlockedTerminating, v1alpha1.BlockedReserved, v1alpha1.BlockedBudget,
	}, reason)
}

// Explain says in a sentence what blocks, by whom, and what can be done.
func Explain(b v1alpha1.DrainBlock) string {
	pods, owner := podsText(b), ""
	if b.Owner != "" {
		owner = " of " + b.Owner
	}
	retry := ""
	if b.RetryTime != nil {
		retry = "; next attempt at " + clock(b.RetryTime.Time)
	}
	switch b.Reason {
	case v1alpha1.BlockedReused:
		return fmt.Sprintf("%s%s uses the claim %s/%s again, which stays allocated: scale the owner down, or let it use a claim template%s", pods, owner, b.Namespace, b.Claim, retry)
	case v1alpha1.BlockedTolerated:
		return fmt.Sprintf("%s%s got a device by a toleration of the cordon (claim %s/%s): scale the owner down, or remove the toleration%s", pods, owner, b.Namespace, b.Claim, retry)
	case v1alpha1.BlockedReallocated:
		return fmt.Sprintf("%s%s got a device after the drain began, without a cordon (claim %s/%s)%s", pods, owner, b.Namespace, b.Claim, retry)
	case v1alpha1.BlockedNoController:
		return fmt.Sprintf("%s: no controller would replace it: delete it, or set podsWithoutController to Evict", pods)
	case v1alpha1.BlockedManyBudgets:
		return fmt.Sprintf("%s%s: the Eviction API refuses a pod with more than one PodDisruptionBudget (%s): keep only one", pods, owner, strings.Join(b.Budgets, ", "))
	case v1alpha1.BlockedBudget:
		return fmt.Sprintf("%s%s: the PodDisruptionBudget %s/%s allows no eviction now", pods, owner, b.Namespace, strings.Join(b.Budgets, ", "))
	case v1alpha1.BlockedTerminating:
		return fmt.Sprintf("%s%s: terminating, and %s", pods, owner, b.Message)
	case v1alpha1.BlockedReserved:
		return fmt.Sprintf("the claim %s/%s is reserved for %s: delete it, or wait for it to end", b.Namespace, b.Claim, b.Owner)
	default:
		return fmt.Sprintf("%s%s: the API server refused: %s", pods, owner, b.Message)
	}
}

// podsText names the first pods of a block, and the number of the others.
func podsText(b v1alpha1.DrainBlock) string {
	var names []string
	for _, name := range b.Pods[:min(len(b.Pods), 3)] {
		names = append(names, b.Namespace+"/"+name)
	}
	return plural.List(names, len(names), int(b.Count))
}
