package app

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// A Report is one finding of lint with its place.
type Report struct {
	File string `json:"file"`
	// Document is the number of the object in its file, Line and Column the place
	// of the finding; all counted from 1.
	Document int `json:"document,omitempty"`
	Line     int `json:"line"`
	Column   int `json:"column"`
	// Kind and Name of the object; the name comes with its namespace, if it has
	// one, as namespace/name.
	Kind     string          `json:"kind,omitempty"`
	Name     string          `json:"name,omitempty"`
	Rule     string          `json:"rule"`
	Severity review.Severity `json:"severity"`
	Path     string          `json:"path,omitempty"`
	Message  string          `json:"message"`
}

func report(d *manifest.Document, line, column int, f review.Finding) Report {
	name := d.Name
	if d.Namespace != "" {
		name = d.Namespace + "/" + name
	}
	return Report{
		File: d.File, Document: d.Index, Line: line, Column: column, Kind: d.Kind, Name: name,
		Rule: f.Rule, Severity: f.Severity, Path: f.Path, Message: f.Message,
	}
}

// String is the report in the form that editors and CI systems read.
func (r Report) String() string {
	var what []string
	if r.Kind != "" {
		what = append(what, strings.TrimSpace(r.Kind+" "+r.Name))
	}
	if r.Path != "" {
		what = append(what, r.Path)
	}
	what = append(what, r.Message)
	return fmt.Sprintf("%s:%d:%d: %s: %s [%s]", r.File, r.Line, r.Column, r.Severity, strings.Join(what, ": "), r.Rule)
}

func (l *linter) print(streams Streams, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if l.reports == nil {
			return encoder.Encode([]Report{})
		}
		return encoder.Encode(l.reports)
	}
	errors, warnings := 0, 0
	for _, r := range l.reports {
		if r.Severity == review.Error {
			errors++
		} else {
			warnings++
		}
		if _, err := fmt.Fprintln(streams.Out, r); err != nil {
			return err
		}
	}
	summary := fmt.Sprintf("%d objects judged, %d of other groups skipped: %d errors, %d warnings", l.judged, l.skipped, errors, warnings)
	if errors+warnings > 0 {
		summary += "; 'dra-steward explain RULE' says more about the [rule] of a line"
	}
	_, err := fmt.Fprintln(streams.Err, summary)
	return err
}
