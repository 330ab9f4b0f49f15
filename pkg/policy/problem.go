package policy

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A Problem is one error in policies.
type Problem struct {
	// File is the name of the source followed by that of the file; empty if the problem
	// is in no file.
	File string `json:"file,omitempty"`
	// Line and Column begin with 1; 0 is not known.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String is "file:line:column: message", without what is not known.
func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return p.File + ": " + p.Message
	default:
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	}
}

// Error is the same as String.
func (p Problem) Error() string { return p.String() }

// positionedError is an error with its place.
type positionedError struct {
	at  *ast.Location
	err error
}

// at returns an error with its place; the arguments are those of [fmt.Errorf].
func at(place *ast.Location, format string, a ...any) error {
	return positionedError{place, fmt.Errorf(format, a...)}
}

func (e positionedError) Error() string {
	if e.at == nil {
		return e.err.Error()
	}
	return fmt.Sprintf("%s:%d: %v", e.at.File, e.at.Row, e.err)
}

func (e positionedError) Unwrap() error { return e.err }

// Problems are what an error of [Parse], [Compile] or [TestReport.Err] is made of, in its
// order.
func Problems(err error) []Problem {
	switch err := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		return problemsOf(err.Unwrap())
	case ast.Errors:
		all := make([]error, len(err))
		for i, one := range err {
			all[i] = one
		}
		return problemsOf(all)
	case *ast.Error:
		p := Problem{Message: err.Code + ": " + err.Message}
		if err.Details != nil {
			p.Message = strings.Join(append([]string{p.Message}, err.Details.Lines()...), "\n")
		}
		return []Problem{p.in(err.Location)}
	case Problem:
		return []Problem{err}
	case positionedError:
		return []Problem{Problem{Message: err.err.Error()}.in(err.at)}
	default:
		return []Problem{{Message: err.Error()}}
	}
}

func problemsOf(errs []error) (all []Problem) {
	for _, err := range errs {
		all = append(all, Problems(err)...)
	}
	return all
}

func (p Problem) in(place *ast.Location) Problem {
	if place != nil {
		p.File, p.Line, p.Column = place.File, place.Row, place.Col
	}
	return p
}
