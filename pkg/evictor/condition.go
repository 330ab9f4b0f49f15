package evictor

import (
	"fmt"
	"regexp"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// ruleCondition is the one place that makes the condition of a rule. had is the
// condition of the type that the rule has, nil for none.
func ruleCondition(kind string, rule *resourceapi.DeviceTaintRule, tally Tally, preview func() Preview, had *metav1.Condition, now metav1.Time) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: rule.Generation, LastTransitionTime: now}
	switch rule.Spec.Taint.Effect {
	case resourceapi.DeviceTaintEffectNoExecute:
		switch {
		case tally.Pending > 0:
			c.Status, c.Reason = metav1.ConditionTrue, ReasonPending
			c.Message = fmt.Sprintf("%s to be evicted in %s.", count(tally.Pending, "pod needs", "pods need"), namespaces(tally.Namespaces))
		case tally.Evicted > 0:
			c.Reason = ReasonCompleted
		default:
			c.Reason = ReasonNotStarted
		}
	case resourceapi.DeviceTaintEffectNone:
		c.Reason = ReasonNoEffect
		p := preview()
		c.Message = fmt.Sprintf("%s selected. %s selected. %s would be evicted in %s if the effect was NoExecute.",
			count(p.Published, "published device", "published devices"), count(p.Allocated, "allocated device", "allocated devices"),
			count(p.Pods, "pod", "pods"), namespaces(p.Namespaces))
	default:
		c.Reason, c.Message = ReasonOther, "Eviction only happens for the NoExecute effect."
	}
	if tally.Evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += count(tally.Evicted, "pod", "pods") + " evicted."
	}
	if had != nil && had.Status == c.Status {
		c.LastTransitionTime = had.LastTransitionTime
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

// countIn reads the number of evicted pods from a condition that [ruleCondition] made,
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
