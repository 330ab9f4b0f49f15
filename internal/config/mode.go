package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Modes are the steps of the ladder, from the one that only looks on to the one that
// refuses most. docs/operations.md has what each means for each kind of rule.
func Modes() []v1alpha1.Mode {
	return []v1alpha1.Mode{v1alpha1.ModeObserve, v1alpha1.ModeWarn, v1alpha1.ModeDefault, v1alpha1.ModeEnforce}
}

// CheckMode refuses a mode that does not exist. Empty is the default.
func CheckMode(m v1alpha1.Mode) error {
	if m == "" || slices.Contains(Modes(), m) {
		return nil
	}
	return field.NotSupported(field.NewPath("mode"), m, Modes())
}
