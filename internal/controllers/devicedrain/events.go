package devicedrain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
)

// repeat is the least time between two events about a drain with the same reason: a budget
// blocks and lets go with every pod.
const repeat = 5 * time.Minute

// event makes an event, if anybody wants them.
func (c *Controller) event(about *corev1.ObjectReference, kind, reason, message string) {
	if c.options.Recorder != nil {
		c.options.Recorder.Event(about, kind, reason, message)
	}
}

// announce reports the changes of a drain: all of them in the log, the important ones in
// events.
func (c *Controller) announce(d *v1alpha1.DeviceDrain, before, after []metav1.Condition, now time.Time) {
	for _, is := range after {
		was := condition.Find(before, is.Type)
		if was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		if is.Type == v1alpha1.DrainViaEvictionRequest && is.Status == metav1.ConditionFalse {
			c.options.Metrics.fellBack(is.Reason)
		}
		c.options.Logger.Info("DeviceDrain", "drain", d.Name, "condition", is.Type, "status", is.Status, "reason", is.Reason, "message", is.Message)
		kind := worth(was, is)
		if kind == "" {
			continue
		}
		said := c.said[d.Name]
		if said == nil {
			said = map[string]time.Time{}
			c.said[d.Name] = said
		}
		if at, known := said[is.Reason]; known && now.Sub(at) < repeat {
			continue
		}
		said[is.Reason] = now
		c.event(&corev1.ObjectReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.DeviceDrainKind, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion},
			kind, is.Reason, is.Message)
	}
}

// worth is the type of the event that a change of a condition is worth, "" for none.
func worth(was, is metav1.Condition) string {
	holds, held := is.Status == metav1.ConditionTrue, was.Status == metav1.ConditionTrue
	switch is.Type {
	case v1alpha1.DrainBlocked, v1alpha1.DrainFailed, v1alpha1.DrainKnownFault:
		if holds {
			return corev1.EventTypeWarning
		}
	case v1alpha1.DrainViaEvictionRequest:
		if !holds {
			return corev1.EventTypeWarning
		}
	case v1alpha1.DrainDrained:
		if holds {
			return corev1.EventTypeNormal
		}
	case v1alpha1.DrainDraining:
		if is.Reason == v1alpha1.WindowNotValid {
			return corev1.EventTypeWarning
		}
		if holds || slices.Contains([]string{"Paused", "DeadlineExceeded", v1alpha1.OutsideWindow}, is.Reason) {
			return corev1.EventTypeNormal
		}
	case v1alpha1.DrainCordoned:
		switch {
		case holds, is.Reason == "Uncordoned":
			return corev1.EventTypeNormal
		case held: // a user has deleted or changed a rule
			return corev1.EventTypeWarning
		}
	}
	return ""
}

// evicted makes an event about the pod with the reason of its eviction.
func (c *Controller) evictedEvent(name string, pod v1alpha1.DrainPod) {
	did := "Evicted"
	if pod.Delete {
		did = "Deleted at the deadline"
	}
	c.event(podReference(pod), corev1.EventTypeNormal, "DeviceDrain", fmt.Sprintf("%s to drain its devices: DeviceDrain %s", did, name))
}

func podReference(pod v1alpha1.DrainPod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
