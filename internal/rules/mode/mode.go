// Package mode has the modes of a configuration.
package mode

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// All are the steps of the ladder, from the one that only observes to the one that
// refuses most. docs/operations.md has what each means for each kind of rule.
func All() []v1alpha1.Mode {
	return []v1alpha1.Mode{v1alpha1.ModeObserve, v1alpha1.ModeWarn, v1alpha1.ModeDefault, v1alpha1.ModeEnforce}
}

// Check refuses a mode that does not exist. Empty is the default.
func Check(m v1alpha1.Mode) error {
	if m == "" || slices.Contains(All(), m) {
		return nil
	}
	return field.NotSupported(field.NewPath("mode"), m, All())
}
