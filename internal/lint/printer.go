package lint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Printer writes results.
type Printer interface {
	// Print takes the next result; what it writes may come later.
	Print(Result) error
	// Close writes what is left.
	Close() error
}

// Outputs are the forms in which findings are printed.
func Outputs() []string { return []string{"text", "json", "sarif", "junit", "github"} }

// Options are what printers have to know.
type Options struct {
	// Here is the working directory, to which names of files are made relative.
	Here string
	// FailOn is the least severity that fails a test of JUnit.
	FailOn validate.Severity
	// Version and Commit are those of the program, Book its rules.
	Version, Commit string
	Book            rulebook.Book
}

// NewPrinter returns the printer for one of Outputs.
func NewPrinter(output string, out io.Writer, o Options) (Printer, error) {
	switch output {
	case "text":
		return &linePrinter{bufio.NewWriter(out), Diagnostic.String}, nil
	case "github":
		return &linePrinter{bufio.NewWriter(out), func(r Diagnostic) string { return annotation(r, o.Here) }}, nil
	case "json":
		return &jsonPrinter{out: out, reports: []Diagnostic{}}, nil
	case "sarif":
		return &sarifPrinter{out: out, options: o}, nil
	case "junit":
		return &junitPrinter{out: out, options: o}, nil
	default:
		return nil, fmt.Errorf("--output %q: must be %s", output, oneOf(Outputs()))
	}
}

// oneOf lists words: "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// linePrinter writes a line per finding as soon as a document is checked.
type linePrinter struct {
	out  *bufio.Writer
	line func(Diagnostic) string
}

func (p *linePrinter) Print(r Result) error {
	for _, report := range r.Reports {
		if _, err := fmt.Fprintln(p.out, p.line(report)); err != nil {
			return err
		}
	}
	if len(r.Reports) == 0 {
		return nil
	}
	return p.out.Flush()
}

func (p *linePrinter) Close() error { return p.out.Flush() }

// jsonPrinter writes a list at the end: it is a list even if there is nothing in it.
type jsonPrinter struct {
	out     io.Writer
	reports []Diagnostic
}

func (p *jsonPrinter) Print(r Result) error {
	p.reports = append(p.reports, r.Reports...)
	return nil
}

func (p *jsonPrinter) Close() error { return encode(p.out, p.reports) }

func encode(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// relative is the name of a file as seen from a folder, with slashes; its name itself
// if it has none from there.
func relative(here, file string) string {
	if filepath.IsAbs(file) {
		if name, err := filepath.Rel(here, file); err == nil {
			file = name
		}
	}
	return filepath.ToSlash(filepath.Clean(file))
}

// A Selection is the set of rules that are reported. Its zero value reports all.
type Selection struct {
	// Only are the IDs of the rules that are reported; empty means all. Problems that
	// prevent a check of the document are always reported.
	Only []string
	// Skip are the IDs of rules that are not reported.
	Skip []string
}

// Check refuses IDs that are not in the book.
func (s Selection) Check(book rulebook.Book) error {
	for _, id := range slices.Concat(s.Only, s.Skip) {
		if _, err := book.Find(id); err != nil {
			return err
		}
	}
	return nil
}

// of returns the reports that are selected, by the site as well.
func (s Selection) of(reports []Diagnostic, site *Site) []Diagnostic {
	return slices.DeleteFunc(reports, func(r Diagnostic) bool {
		return s.skips(r.Rule, site) || len(s.Only) > 0 && !slices.Contains(s.Only, r.Rule) && !blinding(r)
	})
}

func (s Selection) skips(rule string, site *Site) bool {
	return slices.Contains(s.Skip, rule) || slices.Contains(site.skipRules, rule)
}

// wants reports whether the findings of a rule may take the place of others.
func (s Selection) wants(rule string, site *Site) bool {
	return !s.skips(rule, site) && (len(s.Only) == 0 || slices.Contains(s.Only, rule))
}

// blinding reports whether a finding means that no other rule could be looked at.
func blinding(r Diagnostic) bool {
	return r.Rule == rulebook.Unrendered && r.Document == 0 ||
		slices.Contains([]string{rulebook.Unreadable, rulebook.WrongType, rulebook.UnknownKind, rulebook.UnknownVersion}, r.Rule)
}
