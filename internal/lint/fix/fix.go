package fix

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// written are the IDs of the defaults that are written into files.
var written = []string{"toleration-operator-equal"}

// A Change is a default that was written into a file, or that would be.
type Change struct {
	File string
	// Line and Column are its position in the text before the change.
	Line, Column int
	// Kind and Name of the object, Path of the field, Value that it gets.
	Kind, Name, Path, Value string
	// Default is the ID of the default.
	Default string
}

// String is the change in the form of a finding of lint.
func (c Change) String() string {
	return fmt.Sprintf("%s:%d:%d: %s %s: %s: %s [%s]", c.File, c.Line, c.Column, c.Kind, c.Name, c.Path, c.Value, c.Default)
}

// A Result is the outcome for a file.
type Result struct {
	// Text is the new content, the old one if there is nothing to change.
	Text []byte
	// Done are the defaults that Text has more, Left those that could not be written
	// with certainty: aliases and other unusual notations.
	Done, Left []Change
}

// signed matches a file that SOPS has encrypted: it refuses the file once anything in it has changed.
var signed = regexp.MustCompile(`(?m)^\s*"?sops"?:\s*(\{|\r?$)`)

// Text quotes the bare nulls of a file, as which YAML reads no key at all, and writes
// the defaults into its text.
func Text(reader manifest.Reader, file string, text []byte) Result {
	if signed.Match(text) {
		return Result{Text: text}
	}
	text, quoted := quote(reader, file, text)
	result := defaults(reader, file, text)
	result.Done = append(quoted, result.Done...)
	return result
}

func defaults(reader manifest.Reader, file string, text []byte) Result {
	plan := plan{reader: reader, file: file, text: text}
	plan.collect()
	if edits := plan.certain(); len(edits) > 0 {
		plan.result.Text = apply(text, edits)
		for _, e := range edits {
			plan.result.Done = append(plan.result.Done, e.changes...)
		}
		return plan.result
	}
	plan.result.Text = text
	return plan.result
}

// A plan is what could be done to a file.
type plan struct {
	reader    manifest.Reader
	file      string
	text      []byte
	edits     []edit
	documents []document
	result    Result
}

// collect finds the missing defaults and where to write them.
func (p *plan) collect() {
	lines := newLines(p.text)
	for d, err := range p.reader.Read(p.file, bytes.NewReader(p.text)) {
		if err != nil {
			p.documents = append(p.documents, document{})
			continue
		}
		p.documents = append(p.documents, document{read: true, raw: d.Raw})
		for _, change := range missing(d) {
			p.add(lines, d, change)
		}
	}
	slices.SortStableFunc(p.edits, func(a, b edit) int { return cmp.Compare(a.offset, b.offset) })
}

func (p *plan) add(lines lines, d *manifest.Document, change mutate.Change) {
	item := strings.TrimSuffix(change.Pointer, "/operator")
	line, column := d.Position(path(item))
	done := Change{File: d.File, Line: line, Column: column, Kind: d.Kind, Name: d.Name,
		Path: path(change.Pointer), Value: fmt.Sprint(change.Value), Default: change.Default}
	text, offset, ok := insertion(p.text, lines.offset(line, column))
	if !ok || has(d.Raw, change.Pointer) {
		p.result.Left = append(p.result.Left, done)
		return
	}
	e := edit{offset: offset, text: text, document: len(p.documents) - 1, pointers: []string{change.Pointer}, changes: []Change{done}}
	for i := range p.edits {
		if p.edits[i].offset == offset {
			p.edits[i].pointers = append(p.edits[i].pointers, e.pointers...)
			p.edits[i].changes = append(p.edits[i].changes, done)
			return
		}
	}
	p.edits = append(p.edits, e)
}

// missing returns the defaults that a document lacks and that are fit to be written.
func missing(d *manifest.Document) []mutate.Change {
	if d.Kind != "ResourceClaim" && d.Kind != "ResourceClaimTemplate" {
		return nil
	}
	object, _ := manifest.Decode(d)
	settings := mutate.Settings{Finalizer: v1alpha1.FinalizerOff}
	var result mutate.Result
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		result, _ = mutate.ResourceClaim().Apply(creation(object), settings)
	case *resourceapi.ResourceClaimTemplate:
		result, _ = mutate.ResourceClaimTemplate().Apply(creation(object), settings)
	}
	return slices.DeleteFunc(result.Changes, func(c mutate.Change) bool { return !slices.Contains(written, c.Default) })
}

func creation[T any](object *T) mutate.Write[T] {
	return mutate.Write[T]{Object: object, Old: func() (*T, error) { return nil, nil }}
}

// path turns a JSON pointer into the notation of field.Path.
func path(pointer string) string {
	var out strings.Builder
	for _, step := range steps(pointer) {
		if _, err := strconv.Atoi(step); err == nil {
			fmt.Fprintf(&out, "[%s]", step)
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('.')
		}
		out.WriteString(step)
	}
	return out.String()
}

func steps(pointer string) []string {
	return strings.Split(strings.TrimPrefix(pointer, "/"), "/")
}

// Diff is the change of a file as a unified diff that patch and git read, or "".
func Diff(file string, old, changed []byte) []byte {
	name := strings.TrimPrefix(filepath.ToSlash(filepath.Clean(file)), "/")
	return diff.Diff("a/"+name, old, "b/"+name, changed)
}

// Write replaces the content of a file atomically: a reader, also after a crash, sees the
// old or the new content. Links are followed.
func Write(file string, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".dra-steward-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	_, err = next.Write(text)
	if e := next.Chmod(info.Mode().Perm()); err == nil {
		err = e
	}
	if e := next.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
