package patchstatus

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// The reasons of the conditions, but for those that are a [patch.Reason].
const (
	// Accepted, and the three about faults, where there is nothing to say.
	ReasonValid      = "Valid"
	ReasonNoConflict = "NoConflict"
	ReasonNoError    = "NoError"
	// ClassNotFound, where it is false: the filter names none, or it exists.
	ReasonNoClass    = "NoClass"
	ReasonClassFound = "ClassFound"
	// ClassNotFound, where it is unknown: DeviceClasses cannot be read.
	ReasonClassesNotRead = "ClassesNotRead"
	// Applied.
	ReasonPatched         = "Patched"
	ReasonNoDeviceMatches = "NoDeviceMatches"
	ReasonOutvoted        = "Outvoted"
	ReasonNothingToPatch  = "NothingToPatch"
	// Conflicting: patches of the same priority win. If there is no room either,
	// status.skippedKeys lists the key.
	ReasonTied = "Tied"
	// CELError: at all, or for some devices.
	ReasonDoesNotCompile   = "DoesNotCompile"
	ReasonEvaluationFailed = "EvaluationFailed"
)

// messageLength bounds the messages of conditions and events, in bytes.
const messageLength = 1000

// Decide returns the status that a patch should have. What it has counts for one thing: a
// condition whose status stays the same keeps the time of its last transition. classesRead
// reports whether the view has the DeviceClasses: without them it is unknown whether one is
// missing. now is the time of what changes.
func Decide(r tracker.PatchReport, classesRead bool, now metav1.Time) v1alpha1.ResourceSlicePatchStatus {
	return decide(r, classesRead, Written{}, now)
}

func decide(r tracker.PatchReport, classesRead bool, written Written, now metav1.Time) v1alpha1.ResourceSlicePatchStatus {
	status := v1alpha1.ResourceSlicePatchStatus{
		MatchedSlices:  number(r.Report.Slices),
		MatchedDevices: number(r.Report.Devices),
		SkippedKeys:    skipped(r),
	}
	for _, condition := range []metav1.Condition{accepted(r, classesRead), written.applied(applied(r)), written.conflicting(conflicting(r)), classNotFound(r, classesRead), celError(r)} {
		condition.ObservedGeneration = r.Patch.Generation
		condition.Message = shortened(condition.Message)
		condition.LastTransitionTime = now
		had := meta.FindStatusCondition(r.Patch.Status.Conditions, condition.Type)
		if had != nil && had.Status == condition.Status && !had.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = had.LastTransitionTime
		}
		status.Conditions = append(status.Conditions, condition)
	}
	return status
}

func number(n int) *int32 {
	bounded := int32(min(n, math.MaxInt32))
	return &bounded
}

// shortened cuts a message between characters.
func shortened(message string) string {
	if len(message) <= messageLength {
		return message
	}
	at := messageLength
	for !utf8.RuneStart(message[at]) {
		at--
	}
	return message[:at] + " …"
}

func condition(kind string, is bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// problems returns those of a reason, or all but for "".
func problems(r tracker.PatchReport, reason patch.Reason) (messages []string) {
	for _, p := range r.Problems {
		if reason == "" || p.Reason == reason {
			messages = append(messages, p.Message)
		}
	}
	return messages
}

func accepted(r tracker.PatchReport, classesRead bool) metav1.Condition {
	messages := problems(r, "")
	if len(messages) == 0 {
		return condition(v1alpha1.PatchAccepted, true, ReasonValid, "")
	}
	c := condition(v1alpha1.PatchAccepted, false, string(r.Problems[0].Reason), strings.Join(messages, "; "))
	if !classesRead && len(messages) == len(problems(r, patch.ClassNotFound)) {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, ReasonClassesNotRead, notRead
	}
	return c
}

func applied(r tracker.PatchReport) metav1.Condition {
	wants := len(r.Patch.Spec.Devices.Attributes) + len(r.Patch.Spec.Devices.Capacity)
	switch n := r.Report; {
	case n.Patched > 0:
		return condition(v1alpha1.PatchApplied, true, ReasonPatched,
			fmt.Sprintf("changes %d of %d matching devices, in %d ResourceSlices", n.Patched, n.Devices, n.Slices))
	case n.Devices == 0:
		return condition(v1alpha1.PatchApplied, false, ReasonNoDeviceMatches, "no device matches the filter")
	case wants == 0:
		return condition(v1alpha1.PatchApplied, false, ReasonNothingToPatch, "the patch has neither attributes nor capacities")
	default:
		return condition(v1alpha1.PatchApplied, false, ReasonOutvoted,
			fmt.Sprintf("no effect in %d matching devices, because of other patches, limits of the devices or errors of the patch", n.Devices))
	}
}

func conflicting(r tracker.PatchReport) metav1.Condition {
	if k := tied(r); k != nil {
		return condition(v1alpha1.PatchConflicting, true, ReasonTied, k.text())
	}
	if k := full(r); k != nil {
		return condition(v1alpha1.PatchConflicting, true, string(patch.LimitReached), k.text())
	}
	return condition(v1alpha1.PatchConflicting, false, ReasonNoConflict, "")
}

const notRead = "DeviceClasses cannot be read: grant list and watch"

func classNotFound(r tracker.PatchReport, classesRead bool) metav1.Condition {
	filter := r.Patch.Spec.Devices.Filter
	switch messages := problems(r, patch.ClassNotFound); {
	case filter == nil || filter.DeviceClassName == nil:
		return condition(v1alpha1.PatchClassNotFound, false, ReasonNoClass, "")
	case !classesRead:
		c := condition(v1alpha1.PatchClassNotFound, false, ReasonClassesNotRead, notRead)
		c.Status = metav1.ConditionUnknown
		return c
	case len(messages) > 0:
		return condition(v1alpha1.PatchClassNotFound, true, string(patch.ClassNotFound), messages[0])
	default:
		return condition(v1alpha1.PatchClassNotFound, false, ReasonClassFound, "")
	}
}

func celError(r tracker.PatchReport) metav1.Condition {
	if messages := problems(r, patch.CELError); len(messages) > 0 {
		return condition(v1alpha1.PatchCELError, true, ReasonDoesNotCompile, strings.Join(messages, "; "))
	}
	if r.Report.Failures.Devices > 0 {
		return condition(v1alpha1.PatchCELError, true, ReasonEvaluationFailed, failures(r))
	}
	return condition(v1alpha1.PatchCELError, false, ReasonNoError, "")
}

func failures(r tracker.PatchReport) string {
	return fmt.Sprintf("does not apply to %d devices because an expression failed, first: %s", r.Report.Failures.Devices, r.Report.Failures.First)
}

// skipped lists what devices go without although the patch matches them.
func skipped(r tracker.PatchReport) (keys []v1alpha1.SkippedKey) {
	for _, p := range r.Problems {
		if p.Reason == patch.InvalidValue {
			keys = append(keys, v1alpha1.SkippedKey{Name: string(p.Name), Reason: string(p.Reason), Devices: *number(r.Report.Devices)})
		}
	}
	for _, k := range r.Report.Keys() {
		if k.Skipped > 0 {
			keys = append(keys, v1alpha1.SkippedKey{Name: string(k.Name.Qualified), Reason: string(patch.LimitReached), Devices: *number(k.Skipped)})
		}
	}
	return keys
}

// conflict is an attribute or capacity that did not come out as the patch says.
type conflict struct {
	devices, others int
	format          string
	arguments       []any
}

func (c conflict) text() string {
	text := fmt.Sprintf(c.format, c.arguments...)
	if c.others > 0 {
		text += fmt.Sprintf("; the same for %d others", c.others)
	}
	return text
}

// tied is the attribute or capacity with the most devices in which another patch wins
// by its age or name.
func tied(r tracker.PatchReport) *conflict {
	return most(r, func(k patch.KeyReport) conflict {
		return conflict{devices: k.Tied, format: "in %d devices a patch of the same priority wins %s, %s: set different priorities", arguments: []any{k.Tied, k.Name, k.By}}
	})
}

// full is the one that the most devices have no room for.
func full(r tracker.PatchReport) *conflict {
	return most(r, func(k patch.KeyReport) conflict {
		return conflict{devices: k.Skipped, format: "%d devices have no room for %s", arguments: []any{k.Skipped, k.Name}}
	})
}

func most(r tracker.PatchReport, of func(patch.KeyReport) conflict) *conflict {
	var found *conflict
	others := -1
	for _, k := range r.Report.Keys() {
		d := of(k)
		if d.devices == 0 {
			continue
		}
		others++
		if found == nil || cmp.Compare(d.devices, found.devices) > 0 {
			found = &d
		}
	}
	if found != nil {
		found.others = others
	}
	return found
}
