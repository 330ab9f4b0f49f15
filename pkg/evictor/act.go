package evictor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
)

const (
	// DisruptionReason is the reason of the condition DisruptionTarget that an evicted
	// pod gets.
	DisruptionReason = "DeletionByDRASteward"
	// EventReason is the reason of the events about pods.
	EventReason = "DeviceTaintEviction"
	// FieldManager owns the fields that the controller writes.
	FieldManager = "dra-steward-evictor"
)

// An outcome says how an eviction ended without an error.
type outcome string

const (
	// deleted: the API server accepted the deletion.
	deleted outcome = "deleted"
	// gone: the pod does not exist any more, or there is another one of its name.
	gone outcome = "gone"
	// unanswered is beside an error: the API server may have deleted the pod.
	unanswered outcome = "unanswered"
)

// evictPod takes two calls: a condition into the status and the deletion, both for the
// UID that was decided about and no other pod of the name.
func evictPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, message string, now time.Time) (outcome, error) {
	pods := client.CoreV1().Pods(pod.Namespace)
	if !marked(pod) {
		patch, err := markPatch(pod, message, now)
		if err != nil {
			return "", err
		}
		_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, "status")
		if isGone(err) {
			return gone, nil
		}
		if err != nil {
			return "", fmt.Errorf("pod %s/%s: set condition %s: %w", pod.Namespace, pod.Name, corev1.DisruptionTarget, err)
		}
	}
	err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if isGone(err) {
		return gone, nil
	}
	if err != nil {
		return ended(err), fmt.Errorf("pod %s/%s: delete: %w", pod.Namespace, pod.Name, err)
	}
	return deleted, nil
}

// ended is unanswered if the request of an error may have been carried out nevertheless:
// it timed out, or the connection broke.
func ended(err error) outcome {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError || net.IsConnectionRefused(err) {
		return ""
	}
	return unanswered
}

// isGone says whether the pod of the UID is gone: a conflict is one about the UID,
// since there is no other precondition.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// marked says whether the pod has our condition, from an attempt before.
func marked(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == DisruptionReason {
			return true
		}
	}
	return false
}

func markPatch(pod *corev1.Pod, message string, now time.Time) ([]byte, error) {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: DisruptionReason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
}

// conditionMessage fits into a condition: the first reasons, at most 1 KiB.
func conditionMessage(plan Verdict) string {
	const limit = 1024
	message := "DRA Steward: deleting due to NoExecute taint: "
	for i, reason := range plan.Reasons {
		text := reason.String()
		if i > 0 {
			text = "; " + text
		}
		if len(message)+len(text) > limit-len(" and 999 more") {
			return fmt.Sprintf("%s and %d more", message, len(plan.Reasons)-i)
		}
		message += text
	}
	return message
}
