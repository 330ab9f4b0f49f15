package policy

import (
	"fmt"
	"slices"
	"strings"
)

// maxOtherPlaces is how many places of a mistake a message names beside the first.
const maxOtherPlaces = 2

// Told is what people are told of violations that differ in their places alone.
type Told struct {
	// Code is that of the policy, Mode what becomes of it.
	Code string
	Mode Mode
	// Path is the first place; may be empty.
	Path string
	// Message says what is wrong, what would pass, what to do, and where else it is.
	Message string
}

// tell says each thing once, with all its places.
func tell(violations []Violation) (all []Told) {
	done := make([]bool, len(violations))
	for i := range violations {
		if done[i] {
			continue
		}
		v := &violations[i]
		paths := v.Paths
		for j := i + 1; j < len(violations); j++ {
			if other := &violations[j]; !done[j] && v.alike(other) {
				if len(paths) == len(v.Paths) {
					paths = slices.Clip(paths) // those of the violation stay as they are
				}
				paths, done[j] = append(paths, other.Paths...), true
			}
		}
		if len(paths) > len(v.Paths) {
			paths = once(paths)
		}
		one := Told{Code: v.Code, Mode: v.Mode, Message: v.text(paths)}
		if len(paths) > 0 {
			one.Path = paths[0]
		}
		all = append(all, one)
	}
	return all
}

// once leaves out what was there before.
func once(paths []string) []string {
	seen, all := make(map[string]bool, len(paths)), make([]string, 0, len(paths))
	for _, path := range paths {
		if !seen[path] {
			seen[path] = true
			all = append(all, path)
		}
	}
	return all
}

// alike tells whether two violations differ in their places alone.
func (v *Violation) alike(other *Violation) bool {
	return v.Code == other.Code && v.Mode == other.Mode && v.Stored == other.Stored &&
		v.Message == other.Message && v.Hint == other.Hint && slices.Equal(v.Allowed, other.Allowed)
}

func (v *Violation) text(paths []string) string {
	var all strings.Builder
	all.Grow(len(v.Message) + len(v.Hint) + 256)
	all.WriteString(v.Message)
	if len(v.Allowed) > 0 {
		all.WriteString("; allowed: ")
		all.WriteString(strings.Join(v.Allowed, ", "))
	}
	if v.Hint != "" {
		all.WriteString("; ")
		all.WriteString(v.Hint)
	}
	if len(paths) > 1 {
		others := paths[1:min(len(paths), 1+maxOtherPlaces)]
		all.WriteString("; also at ")
		all.WriteString(strings.Join(others, ", "))
		if rest := len(paths) - 1 - len(others); rest > 0 {
			fmt.Fprintf(&all, " and %d more", rest)
		}
	}
	return all.String()
}
