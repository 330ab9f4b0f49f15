package patchstatus

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A fault is what an event speaks of: a reason, and what is wrong in all devices.
type fault struct {
	reason  patch.Reason
	message string
}

// ReasonConflicting is that of the event of a patch that wanted something else than what
// devices have now, and no priority says why.
const ReasonConflicting patch.Reason = "Conflicting"

// faults returns what is wrong with a patch, each reason once.
func faults(r tracker.PatchReport, classesRead bool) (all []fault) {
	for _, reason := range []patch.Reason{patch.ClassNotFound, patch.CELError, patch.InvalidValue} {
		messages := problems(r, reason)
		if reason == patch.ClassNotFound && !classesRead {
			continue
		}
		if reason == patch.CELError && len(messages) == 0 && r.Report.Failures.Devices > 0 {
			messages = []string{failures(r)}
		}
		if len(messages) > 0 {
			all = append(all, fault{reason, strings.Join(messages, "; ")})
		}
	}
	if k := full(r); k != nil {
		all = append(all, fault{patch.LimitReached, k.text()})
	}
	if k := tied(r); k != nil {
		all = append(all, fault{ReasonConflicting, k.text()})
	}
	return all
}

// hasEvent reports whether a status has a reason of the generation of its patch already, so
// that an event, perhaps of an earlier writer, exists.
func hasEvent(p *v1alpha1.ResourceSlicePatch, reason patch.Reason) bool {
	kind, of := v1alpha1.PatchConflicting, ""
	switch reason {
	case patch.ClassNotFound:
		kind = v1alpha1.PatchClassNotFound
	case patch.CELError:
		kind = v1alpha1.PatchCELError
	case ReasonConflicting:
		of = ReasonTied
	case patch.InvalidValue, patch.LimitReached:
		accepted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PatchAccepted)
		if accepted == nil || accepted.ObservedGeneration != p.Generation {
			return false
		}
		for _, k := range p.Status.SkippedKeys {
			if k.Reason == string(reason) {
				return true
			}
		}
		return false
	}
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation && (of == "" || c.Reason == of)
}

// event makes the event of a fault. Its name is that of the generation and the reason.
func event(p *v1alpha1.ResourceSlicePatch, f fault, now metav1.Time) *corev1.Event {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s %d %s", p.UID, p.Generation, f.reason)
	name := p.Name
	if len(name) > 200 {
		name = strings.TrimRight(name[:200], "-.")
	}
	return &corev1.Event{
		// Events about what has no namespace are in this one.
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x", name, sum.Sum64())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.ResourceSlicePatchKind,
			Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: string(f.reason), Message: shortened(f.message),
		Source:         corev1.EventSource{Component: FieldManager},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
