// Package condition writes the conditions of our own types, and reads those of pods.
package condition

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// messageBytes limits the message of a condition.
const messageBytes = 2048

// A Condition is one that is true or false.
type Condition struct {
	Type            string
	Is              bool
	Reason, Message string
}

// Set sets a condition of a status that is of a generation. Its transition time, in whole
// seconds, changes only with its status.
func Set(all *[]metav1.Condition, generation int64, now time.Time, c Condition) {
	status := metav1.ConditionFalse
	if c.Is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(all, metav1.Condition{
		Type: c.Type, Status: status, Reason: c.Reason, Message: Bounded(c.Message, messageBytes),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
}

// Find returns the condition of a type, the zero value if there is none.
func Find(conditions []metav1.Condition, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// Bounded cuts a text after a number of bytes, at least 3, between two characters.
func Bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// PodReady reports whether a pod runs, is ready and is not being deleted.
func PodReady(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}
