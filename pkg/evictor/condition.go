package evictor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/guard"
)

// The reasons of the condition of a rule: those of Kubernetes 1.37.
const (
	ReasonPending    = "PodsPendingEviction"
	ReasonCompleted  = "Completed"
	ReasonNotStarted = "NotStarted"
	ReasonNoEffect   = "NoEffect"
	ReasonOther      = "OtherEffect"
)

// A Preview says what a rule would do if its effect were NoExecute.
type Preview struct {
	// Published are the devices in slices that the rule selects.
	Published int
	// Allocated are those that claims hold, published or not.
	Allocated int
	// Pods would be evicted, now or later, in that many Namespaces.
	Pods, Namespaces int
}

// HeldCondition says that a rule evicts nobody for now, and what would change that.
const HeldCondition = "dra-steward.io/EvictionHeld"

// The reasons of [HeldCondition].
const (
	// ReasonOlder: the rule is older than the first start of the controller.
	ReasonOlder = "OlderThanController"
	// ReasonTooLarge: it hits more than the thresholds or its acknowledgement allow.
	ReasonTooLarge = "AboveThreshold"
)

// A ruleReport is what there is to say about a rule.
type ruleReport struct {
	Tally
	preview Preview
	// excess is what paused it, counts what it hits.
	excess []guard.Excess
	counts guard.Counts
}

// reportOn says what there is to say about a rule, but for the devices of its preview.
func (c *Controller) reportOn(rule types.UID) ruleReport {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	of := cause{rule: rule}
	report := ruleReport{Tally: c.cases.ledger.tally(rule), excess: c.breaker.broken[of]}
	if a := c.cases.ledger.accounts[of]; a != nil {
		report.preview = Preview{Pods: a.preview.pods, Namespaces: len(a.preview.namespaces)}
		report.counts = a.wave.counts()
	}
	return report
}

// conditionsOf is the one place that makes the conditions of a rule; kind is the type of
// the first.
func conditionsOf(kind string, rule *resourceapi.DeviceTaintRule, report ruleReport, now metav1.Time) []metav1.Condition {
	conditions := []metav1.Condition{progress(kind, rule, report)}
	held := metav1.Condition{Type: HeldCondition, Status: metav1.ConditionTrue}
	switch {
	case rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute:
	case len(report.excess) > 0:
		held.Reason = ReasonTooLarge
		held.Message = fmt.Sprintf("Nobody is evicted for now: %s. To go on, annotate the rule with %s", because(report.excess), guard.CeilingOf(report.counts).Annotate())
		conditions = append(conditions, held)
	case report.Held > 0:
		held.Reason = ReasonOlder
		held.Message = fmt.Sprintf("%s left alone: the taint is older than the first start of dra-steward. To confirm it, annotate the rule with %s",
			count(report.Held, "pod is", "pods are"), guard.Ceiling{Pods: &report.Held}.Annotate())
		conditions = append(conditions, held)
	}
	for i := range conditions {
		c := &conditions[i]
		c.ObservedGeneration, c.LastTransitionTime = rule.Generation, now
		if had := findCondition(rule, c.Type); had != nil && had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
	}
	return conditions
}

// outdated says whether the conditions of a rule have to be written: one is missing or
// different, or there is one of ours that should not be.
func outdated(rule *resourceapi.DeviceTaintRule, conditions []metav1.Condition) bool {
	for _, kind := range []string{OwnCondition, HeldCondition} {
		if findCondition(rule, kind) != nil && !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind }) {
			return true
		}
	}
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return !sameCondition(findCondition(rule, c.Type), &c) })
}

// progress says how far the evictions of a rule are.
func progress(kind string, rule *resourceapi.DeviceTaintRule, report ruleReport) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse}
	switch rule.Spec.Taint.Effect {
	case resourceapi.DeviceTaintEffectNoExecute:
		switch {
		case report.Pending > 0:
			c.Status, c.Reason = metav1.ConditionTrue, ReasonPending
			c.Message = fmt.Sprintf("%s to be evicted in %s.", count(report.Pending, "pod needs", "pods need"), namespaces(report.Namespaces))
		case report.Evicted > 0:
			c.Reason = ReasonCompleted
		default:
			c.Reason = ReasonNotStarted
		}
	case resourceapi.DeviceTaintEffectNone:
		c.Reason = ReasonNoEffect
		p := report.preview
		c.Message = fmt.Sprintf("%s selected. %s selected. %s would be evicted in %s if the effect was NoExecute.",
			count(p.Published, "published device", "published devices"), count(p.Allocated, "allocated device", "allocated devices"),
			count(p.Pods, "pod", "pods"), namespaces(p.Namespaces))
	default:
		c.Reason, c.Message = ReasonOther, "Eviction only happens for the NoExecute effect."
	}
	if report.Evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += count(report.Evicted, "pod", "pods") + " evicted."
	}
	return c
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func namespaces(n int) string { return count(n, "namespace", "different namespaces") }

var evictedBefore = regexp.MustCompile(`(?:^| )(\d+) pods? evicted\.$`)

// evictedSoFar is the number of evicted pods that a rule says we have reported, in
// whatever mode that was.
func evictedSoFar(rule *resourceapi.DeviceTaintRule) int {
	return max(countIn(findCondition(rule, resourceapi.DeviceTaintConditionEvictionInProgress)), countIn(findCondition(rule, OwnCondition)))
}

// countIn reads the number of evicted pods from a condition that [progress] made,
// zero if there is none.
func countIn(had *metav1.Condition) int {
	if had == nil {
		return 0
	}
	found := evictedBefore.FindStringSubmatch(had.Message)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return n
}

func findCondition(rule *resourceapi.DeviceTaintRule, kind string) *metav1.Condition {
	for i := range rule.Status.Conditions {
		if rule.Status.Conditions[i].Type == kind {
			return &rule.Status.Conditions[i]
		}
	}
	return nil
}
