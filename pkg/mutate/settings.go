package mutate

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings are what a site decides about the defaults. The zero value is what we
// advise.
type Settings struct {
	// Finalizer says when a claim gets the finalizer of the scheduler.
	Finalizer FinalizerMode
	// TimeAddedWindow is how close to the write a taint's time has to lie to be
	// taken for one that the API server filled in. Nil is 5 s, 0 never restores a
	// time.
	TimeAddedWindow *metav1.Duration
}

// FinalizerMode says when a claim gets the finalizer of the scheduler.
type FinalizerMode string

const (
	// FinalizerCreate adds it to every new claim and repairs like FinalizerRepair.
	// It is what an empty mode means.
	FinalizerCreate FinalizerMode = "create"
	// FinalizerRepair adds it only to allocated claims that lack it.
	FinalizerRepair FinalizerMode = "repair"
	// FinalizerOff never adds it.
	FinalizerOff FinalizerMode = "off"
)

// DefaultTimeAddedWindow is the window of a Settings that names none.
const DefaultTimeAddedWindow = 5 * time.Second

// maxTimeAddedWindow bounds the window: a longer one would take times that a driver
// chose for times that the API server filled in.
const maxTimeAddedWindow = time.Minute

func (s Settings) timeAddedWindow() time.Duration {
	if s.TimeAddedWindow == nil {
		return DefaultTimeAddedWindow
	}
	return s.TimeAddedWindow.Duration
}

// Validate refuses an unknown mode and a window that makes no sense.
func (s Settings) Validate() error {
	switch s.Finalizer {
	case "", FinalizerCreate, FinalizerRepair, FinalizerOff:
	default:
		return fmt.Errorf("defaults.finalizer: %q: must be %q, %q or %q", s.Finalizer, FinalizerCreate, FinalizerRepair, FinalizerOff)
	}
	if window := s.timeAddedWindow(); window < 0 || window > maxTimeAddedWindow {
		return fmt.Errorf("defaults.timeAddedWindow: %s: must be between 0s (off) and %s", window, maxTimeAddedWindow)
	}
	return nil
}
