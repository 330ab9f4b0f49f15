package mutate

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Settings are what a site decides about the defaults. The zero value is what we
// advise.
type Settings struct {
	// Finalizer is when a claim gets the finalizer of the scheduler.
	Finalizer v1alpha1.FinalizerMode
	// TimeAddedWindow is how close to the write a taint's time has to lie to be
	// taken for one that the API server filled in. Nil is 5 s, 0 never restores a
	// time.
	TimeAddedWindow *metav1.Duration
	// Tolerations change the tolerations of new claims and templates; nil leaves them.
	Tolerations *v1alpha1.Tolerations
}

// defaultTimeAddedWindow is the window of a Settings that names none.
const defaultTimeAddedWindow = 5 * time.Second

// maxTimeAddedWindow bounds the window: a longer one would take times that a driver
// chose for times that the API server filled in.
const maxTimeAddedWindow = time.Minute

func (s Settings) timeAddedWindow() time.Duration {
	if s.TimeAddedWindow == nil {
		return defaultTimeAddedWindow
	}
	return s.TimeAddedWindow.Duration
}

// settingsPath is where a configuration file has them.
var settingsPath = field.NewPath("defaults")

// Validate refuses an unknown mode and a window that makes no sense.
func (s Settings) Validate() error {
	var all []error
	switch s.Finalizer {
	case "", v1alpha1.FinalizerCreate, v1alpha1.FinalizerRepair, v1alpha1.FinalizerOff:
	default:
		all = append(all, field.NotSupported(settingsPath.Child("finalizer"), s.Finalizer,
			[]v1alpha1.FinalizerMode{v1alpha1.FinalizerCreate, v1alpha1.FinalizerRepair, v1alpha1.FinalizerOff}))
	}
	if window := s.timeAddedWindow(); window < 0 || window > maxTimeAddedWindow {
		all = append(all, field.Invalid(settingsPath.Child("timeAddedWindow"), window.String(),
			fmt.Sprintf("must be between 0s (off) and %s", maxTimeAddedWindow)))
	}
	for _, err := range validateTolerations(s.Tolerations) {
		all = append(all, err)
	}
	return errors.Join(all...)
}
