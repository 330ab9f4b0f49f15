package drain

import (
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/windows"
)

// A closure is why no window of a drain is open; its zero value says that one is.
type closure struct{ reason, message string }

// closed reports why pods are left alone at this time, and decides again when that changes.
func (d *Decision) closed(in Input) closure {
	state, err := windows.At(in.Drain.Spec.Windows, in.Now)
	if err != nil {
		return closure{v1alpha1.WindowNotValid, "no pods are evicted: spec." + err.Error()}
	}
	if !state.Until.IsZero() {
		d.wakeAt(state.Until)
	}
	switch {
	case state.Open:
		return closure{}
	case state.Until.IsZero():
		return closure{v1alpha1.OutsideWindow, "no window opens within a week"}
	}
	return closure{v1alpha1.OutsideWindow, "the next window opens at " + state.Until.UTC().Format(time.RFC3339)}
}
