package patchstatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// Written is how far a patch is written into slices, where that is done. The zero value is
// a patch that is in all of them, or a cluster in which that is not done.
type Written struct {
	// Differing is the number of slices that are not what patches make of them.
	Differing int
	// Refused is the number of slices that are published without patches, which would
	// break a limit, Why what is wrong with one.
	Refused int
	Why     string
	// Blocked is the number of values that are not written into devices, What says why of
	// one.
	Blocked int
	What    string
	// Elsewhere is what else applies patches, so that none is written, or "".
	Elsewhere string
}

// Reasons of Applied where patches are written into slices.
const (
	// ReasonNotWritten: slices do not have it yet.
	ReasonNotWritten = "NotWritten"
	// ReasonRefused: slices cannot have it.
	ReasonRefused = "Refused"
	// ReasonTwoModes: a scheduler applies patches, too.
	ReasonTwoModes = "TwoModes"
)

func (w Written) applied(c metav1.Condition) metav1.Condition {
	if c.Status != metav1.ConditionTrue {
		return c
	}
	switch {
	case w.Elsewhere != "":
		return condition(v1alpha1.PatchApplied, false, ReasonTwoModes, "ResourceSlices are not written: "+w.Elsewhere)
	case w.Refused > 0:
		return condition(v1alpha1.PatchApplied, false, ReasonRefused, fmt.Sprintf("%d ResourceSlices cannot have it: %s", w.Refused, w.Why))
	case w.Differing > 0:
		return condition(v1alpha1.PatchApplied, false, ReasonNotWritten, fmt.Sprintf("%d ResourceSlices do not have it yet", w.Differing))
	}
	return c
}

func (w Written) conflicting(c metav1.Condition) metav1.Condition {
	if c.Status == metav1.ConditionTrue || w.Blocked == 0 {
		return c
	}
	return condition(v1alpha1.PatchConflicting, true, string(patch.LimitReached), fmt.Sprintf("%d values cannot be written into slices, such as %s", w.Blocked, w.What))
}
