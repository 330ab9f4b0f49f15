package lint

import (
	"cmp"
	"errors"
	"iter"
	"runtime"
	"time"

	"github.com/dra-steward/dra-steward/internal/foresight/podtemplate"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Linter checks files.
type Linter struct {
	Reader manifest.Reader
	Sites  *Sites
	// Rules selects what is reported.
	Rules Selection
	// Verdicts asks for the verdict of the API server instead of findings.
	Verdicts bool
	// Namespace is that of the objects of charts that name none.
	Namespace string
	// Now is the time of the writes that are checked.
	Now time.Time

	// world is what exists; nil for verdicts, which are about one object.
	world *world
}

// Run checks the files and folders that args stand for and yields the results by file and
// document. A file that cannot be read is a result too; the others are checked
// nevertheless.
func (l Linter) Run(args ...string) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		rewind, end, err := l.spool(args)
		if err != nil {
			yield(Result{File: manifest.Stdin, Err: err})
			return
		}
		defer end()
		if !l.Verdicts {
			l.world = l.known(args)
		}
		if err := rewind(); err != nil {
			yield(Result{File: manifest.Stdin, Err: err})
			return
		}
		l.run(l.tasks(args))(yield)
	}
}

func (l Linter) run(tasks iter.Seq[task]) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		documents, ours := 0, 0
		for done := range inOrder(tasks, runtime.GOMAXPROCS(0), l.work) {
			if done.first {
				documents, ours = 0, 0
			}
			for _, result := range done.results {
				documents, ours = done.number(&result, documents, ours)
				if !yield(result) {
					return
				}
			}
		}
	}
}

// A task is a part of a file to check, or what kept it from being read.
type task struct {
	// first marks the first part of a file.
	first bool
	part  manifest.Part
	site  *Site
	err   error
	// namespace is that of objects that name none.
	namespace string
	// place finds the lines of a rendered text in its template; nil for other texts.
	place func(line, column int) (row, col int, note string)
}

// files yields what Files yields, each with its site.
func (l Linter) files(args []string) iter.Seq2[string, fileSite] {
	return func(yield func(string, fileSite) bool) {
		for file, err := range manifest.Files(args...) {
			site, skipped, failure := l.site(file, err)
			if skipped {
				continue
			}
			err = cmp.Or(failure, err)
			if !yield(file, fileSite{site, err}) {
				return
			}
		}
	}
}

// site is that of a file that was found, or of a link that is not followed.
func (l Linter) site(file string, err error) (site *Site, skipped bool, failure error) {
	if link := (*manifest.Error)(nil); errors.As(err, &link) && link.Link {
		file = link.File
	} else if err != nil {
		return nil, false, err
	}
	site, failure = l.Sites.For(file)
	return site, failure == nil && site.skips(file), failure
}

type fileSite struct {
	site *Site
	err  error
}

// Files yields the files that args stand for, but for those that a site does not want
// to be looked at.
func (l Linter) Files(args ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for file, at := range l.files(args) {
			if !yield(file, at.err) {
				return
			}
		}
	}
}

// tasks cuts the files into parts and says by whose rules each is checked.
func (l Linter) tasks(args []string) iter.Seq[task] {
	return func(yield func(task) bool) {
		for file, at := range l.files(args) {
			if at.err != nil {
				if !yield(task{first: true, part: manifest.Part{File: file}, site: at.site, err: at.err}) {
					return
				}
				continue
			}
			first := true
			for part, err := range l.Reader.OpenParts(file) {
				if !yield(task{first: first, part: part, site: at.site, err: err}) {
					return
				}
				first = false
			}
		}
	}
}

// work is what is checked of a task.
type work struct {
	first   bool
	results []Result
}

// number counts the result on in its file.
func (work) number(r *Result, documents, ours int) (int, int) {
	if r.Err != nil {
		return documents, ours
	}
	documents++
	r.Document = documents
	if r.Kind != "" && !r.Skipped {
		ours++
		r.Ours = ours
	}
	for i := range r.Reports {
		if r.Reports[i].Document > 0 {
			r.Reports[i].Document = documents
		}
	}
	return documents, ours
}

func (l Linter) work(t task) work {
	done := work{first: t.first}
	if t.err != nil {
		result := Result{File: t.part.File, Err: t.err}
		if place := (*manifest.Error)(nil); errors.As(t.err, &place) {
			result.File = place.File
			if place.Link && t.site != nil {
				result.Line, result.Err = 1, nil
				result.Reports = l.Rules.of([]Diagnostic{{File: place.File, Line: 1, Column: 1, Rule: rulebook.Unreadable,
					Severity: validate.Warning, Message: place.Message}}, t.site)
			}
		}
		done.results = []Result{result}
		return done
	}
	for document, err := range t.part.Documents() {
		result := l.result(t, document, err)
		t.locate(&result)
		done.results = append(done.results, result)
	}
	return done
}

func (l Linter) result(t task, document *manifest.Document, err error) Result {
	if place := (*manifest.Error)(nil); errors.As(err, &place) && place.Line > 0 {
		return Result{File: t.part.File, Line: place.Line, Reports: l.Rules.of([]Diagnostic{{
			File: place.File, Line: place.Line, Column: place.Column,
			Rule: unreadable(place), Severity: validate.Error, Message: place.Message}}, t.site)}
	}
	if err != nil {
		return Result{File: t.part.File, Err: err}
	}
	result := Result{File: document.File, Line: document.Line, APIVersion: document.APIVersion,
		Kind: document.Kind, Namespace: document.Namespace, Name: document.Name, Skipped: !document.Ours()}
	if document.Ours() {
		if result.Partial = l.world.notWhole(document); result.Partial != "" {
			result.Skipped = true
			return result
		}
	}
	switch {
	case l.Verdicts && result.Skipped:
	case result.Skipped:
		result.Reports, result.Skipped = l.pods(t, document)
	case l.Verdicts:
		result.Verdict = t.site.verdict(document, l.Now)
	default:
		result.Reports = l.Rules.of(t.site.check(document, l.world, t.namespace, l.Now, l.Rules.wants(rulebook.Unrendered, t.site)), t.site)
	}
	return result
}

// pods checks the pods of an object of another group; skipped is true if they use no devices.
func (l Linter) pods(t task, document *manifest.Document) (reports []Diagnostic, skipped bool) {
	if l.world == nil {
		return nil, true
	}
	found, any := podtemplate.Check(cmp.Or(document.Namespace, t.namespace), document.Raw, &l.world.names)
	j := judgement{site: t.site, document: document}
	for _, f := range found {
		severity := validate.Error
		if f.Warning {
			severity = validate.Warning
		}
		j.add(review.Finding{Rule: f.Rule, Severity: severity, Path: f.Path, Message: f.Message})
	}
	j.sort()
	return l.Rules.of(append(j.reports, j.unlisted()...), t.site), !any
}

// unreadable is the check that found an error.
func unreadable(place *manifest.Error) string {
	if place.Template {
		return rulebook.Unrendered
	}
	return rulebook.Unreadable
}
