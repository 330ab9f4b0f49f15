package drain

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/faults"
)

// conditions sets the conditions of a status.
type conditions struct {
	status *v1alpha1.DeviceDrainStatus
	now    time.Time
}

// set sets a condition; its transition time changes only with its status.
func (c conditions) set(kind string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&c.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: bounded(message, 2048),
		ObservedGeneration: c.status.ObservedGeneration, LastTransitionTime: metav1.NewTime(c.now.Truncate(time.Second)),
	})
	return *meta.FindStatusCondition(c.status.Conditions, kind)
}

// knownFault warns of faults of a version of Kubernetes that the rules of a drain set off.
func (c conditions) knownFault(version string) {
	var texts []string
	for _, fault := range faults.Of(version, faults.RuleExists) {
		texts = append(texts, fault.String())
	}
	switch {
	case version == "": // it is not known now, and may have been
	case texts == nil:
		meta.RemoveStatusCondition(&c.status.Conditions, v1alpha1.DrainKnownFault)
	default:
		c.set(v1alpha1.DrainKnownFault, true, "KnownFault", "the API server is "+version+": "+strings.Join(texts, "; "))
	}
}
