package guard

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BeganCondition is the condition of a DeviceTaintRule whose time is since when the rule evicts
// what it evicts now. The controller writes it.
const BeganCondition = "dra-steward.io/Evicts"

// Began returns since when a rule evicts what it evicts now. A rule that was never changed began
// when it was created; one that was changed, when the controller saw that. known is false while
// the controller has not written it. The time of the taint does not count: authors set it.
func Began(rule *resourceapi.DeviceTaintRule) (began time.Time, known bool) {
	if rule.Generation <= 1 {
		return rule.CreationTimestamp.Time, true
	}
	written := apimeta.FindStatusCondition(rule.Status.Conditions, BeganCondition)
	if written == nil || written.Status != metav1.ConditionTrue || written.ObservedGeneration != rule.Generation ||
		written.LastTransitionTime.Before(&rule.CreationTimestamp) {
		return time.Time{}, false
	}
	return written.LastTransitionTime.Time, true
}
