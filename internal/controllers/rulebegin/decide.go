// Package rulebegin writes into the status of a DeviceTaintRule since when it evicts what it
// evicts now. A replica of the webhook that starts reads it there, for the guard's sum over a
// window.
package rulebegin

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/guard"
)

// Reasons of the condition.
const (
	reasonEvicts   = "EffectNoExecute"
	reasonEvictsNo = "OtherEffect"
)

// Decide returns the condition that the status of a rule lacks, nil if it lacks none. previous is
// the rule as this process saw it before, nil if it did not. A rule that was never changed needs
// no condition: it began when it was created. A rule that was changed more than once since begins
// now, because a change in between may have stopped it.
func Decide(previous, rule *resourceapi.DeviceTaintRule, now time.Time) *metav1.Condition {
	if rule.Generation <= 1 {
		return nil
	}
	written := apimeta.FindStatusCondition(rule.Status.Conditions, guard.BeganCondition)
	if !guard.Widens(nil, rule) {
		if written == nil || written.Status == metav1.ConditionFalse {
			return nil
		}
		return &metav1.Condition{Type: guard.BeganCondition, Status: metav1.ConditionFalse, Reason: reasonEvictsNo,
			Message: "The rule evicts no pods.", ObservedGeneration: rule.Generation, LastTransitionTime: metav1.NewTime(now)}
	}
	if written != nil && written.Status == metav1.ConditionTrue && written.ObservedGeneration == rule.Generation {
		return nil
	}
	since := now
	if previous != nil && previous.UID == rule.UID && previous.Generation+1 == rule.Generation && !guard.Widens(previous, rule) {
		if began, known := guard.Began(previous); known {
			since = began
		}
	}
	return &metav1.Condition{Type: guard.BeganCondition, Status: metav1.ConditionTrue, Reason: reasonEvicts,
		Message: "The rule evicts pods from these devices since the time of this condition.", ObservedGeneration: rule.Generation, LastTransitionTime: metav1.NewTime(since)}
}
