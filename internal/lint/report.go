package lint

import (
	"fmt"
	"strings"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Diagnostic is one finding with its place.
type Diagnostic struct {
	File string `json:"file"`
	// Document is the number of the object in its file, Line and Column the place
	// of the finding; all counted from 1.
	Document int `json:"document,omitempty"`
	Line     int `json:"line"`
	Column   int `json:"column"`
	// Kind and Name of the object; the name comes with its namespace, if it has
	// one, as namespace/name.
	Kind     string            `json:"kind,omitempty"`
	Name     string            `json:"name,omitempty"`
	Rule     string            `json:"rule"`
	Severity validate.Severity `json:"severity"`
	Path     string            `json:"path,omitempty"`
	Message  string            `json:"message"`
}

func report(d *manifest.Document, line, column int, f review.Finding) Diagnostic {
	return Diagnostic{
		File: d.File, Document: d.Index, Line: line, Column: column, Kind: d.Kind, Name: fullName(d),
		Rule: f.Rule, Severity: f.Severity, Path: f.Path, Message: f.Message,
	}
}

func fullName(d *manifest.Document) string {
	if d.Namespace != "" {
		return d.Namespace + "/" + d.Name
	}
	return d.Name
}

// Text is the report without its place: object, field and message.
func (r Diagnostic) Text() string {
	var what []string
	if r.Kind != "" {
		what = append(what, strings.TrimSpace(r.Kind+" "+r.Name))
	}
	if r.Path != "" {
		what = append(what, r.Path)
	}
	return strings.Join(append(what, r.Message), ": ")
}

// String is the report in the form that editors and CI systems read.
func (r Diagnostic) String() string {
	return printable.Line(fmt.Sprintf("%s:%d:%d: %s: %s [%s]", r.File, r.Line, r.Column, r.Severity, r.Text(), r.Rule))
}

// A Result is what there is to say about one object, or about a file that could not
// be read.
type Result struct {
	File string
	// Document is the number of the object in its file, Ours that among the objects
	// of resource.k8s.io; both counted from 1. Line is where it begins.
	Document, Ours, Line int
	// APIVersion, Kind and Name are what the object says of itself, the last without
	// its namespace.
	APIVersion, Kind, Namespace, Name string
	// Skipped objects are of other groups: nothing is said about them.
	Skipped bool
	// Partial is why a skipped object of ours is not checked: it is not what the API server gets.
	Partial string
	Reports []Diagnostic
	// Verdict is set instead of Reports if verdicts are asked for.
	Verdict Verdict
	// Err says why a file, or the configuration for it, could not be read.
	Err error
}
