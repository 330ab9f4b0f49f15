package manifest

import (
	"fmt"
	"strings"
)

// Error says why a file, or one document of it, could not be read.
type Error struct {
	// File is the name of the file as it was given to the [Reader].
	File string
	// Line and Column are counted from 1. They are 0 when the error concerns
	// the file as a whole, for example because it does not exist.
	Line, Column int
	// Message is the problem and what would be right.
	Message string
	// Err is the cause, if it came from the operating system or a parser.
	Err error
	// Old is the text at the place and New what to write instead of it, where that is
	// certain; empty otherwise.
	Old, New string
	// Template is true for a template that was not rendered.
	Template bool
}

// Error returns "file:line:column: message", or "file: message" for an error
// without a place.
func (e *Error) Error() string {
	var out strings.Builder
	out.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&out, ":%d:%d", e.Line, e.Column)
	}
	out.WriteString(": ")
	out.WriteString(e.Message)
	return out.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
