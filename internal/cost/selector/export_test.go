package selector

import "slices"

// Judged reports whether the work of a function is known.
func Judged(function string) bool {
	return special[function] != nil || slices.Contains(linear, function) || slices.Contains(constant, function)
}
