package app

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dra-steward/dra-steward/internal/fix"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// A tally is what lint has found so far.
type tally struct {
	failOn   string
	verdicts bool

	judged, skipped, errors, warnings int
	failed                            bool
	// unopened are files that could not be read at all.
	unopened []error
}

func (t *tally) add(r lint.Result) {
	switch {
	case r.Err != nil:
		t.unopened = append(t.unopened, r.Err)
	case r.Skipped:
		t.skipped++
	case r.Kind != "":
		t.judged++
	}
	for _, report := range r.Reports {
		if report.Severity == review.Error {
			t.errors++
		} else {
			t.warnings++
		}
		t.failed = t.failed || report.Severity == review.Error || t.failOn == report.Severity.String()
	}
	t.failed = t.failed || t.verdicts && r.Ours > 0 && r.Verdict != lint.Valid
}

func (t *tally) summary() string {
	summary := fmt.Sprintf("%d objects judged, %d of other groups skipped: %d errors, %d warnings", t.judged, t.skipped, t.errors, t.warnings)
	if t.errors+t.warnings > 0 {
		summary += "; 'dra-steward explain RULE' says more about the [rule] of a line"
	}
	return summary
}

// end is the end of the run: a file that could not be opened weighs more than a
// finding, since nobody knows what is in it.
func (t *tally) end() error {
	if len(t.unopened) > 0 {
		return errors.Join(t.unopened...)
	}
	if t.failed {
		return errFindings
	}
	return nil
}

// fixFiles writes defaults into files, or only shows what it would write.
func fixFiles(streams Streams, linter lint.Linter, dry bool, args []string) error {
	changed := false
	var unopened []error
	for file, err := range linter.Files(args...) {
		var done bool
		if err == nil {
			done, err = fixFile(streams, linter.Reader, dry, file)
		}
		if err != nil {
			unopened = append(unopened, err)
		}
		changed = changed || done
	}
	if len(unopened) > 0 {
		return errors.Join(unopened...)
	}
	if dry && changed {
		return errFindings
	}
	return nil
}

func fixFile(streams Streams, reader manifest.Reader, dry bool, file string) (changed bool, err error) {
	var text []byte
	switch {
	case file != manifest.Stdin:
		text, err = os.ReadFile(file)
	case dry:
		text, err = io.ReadAll(reader.Stdin)
	default:
		err = errors.New("--fix: standard input cannot be changed; use --diff, or name the file")
	}
	if err != nil {
		return false, err
	}
	result := fix.Text(reader, file, text)
	for _, c := range result.Left {
		fmt.Fprintf(streams.Err, "%s: not written: too unusual a notation to be sure\n", c)
	}
	if len(result.Done) == 0 {
		return false, nil
	}
	if dry {
		_, err = streams.Out.Write(fix.Diff(file, text, result.Text))
		return true, err
	}
	if err := fix.Write(file, result.Text); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	for _, c := range result.Done {
		fmt.Fprintf(streams.Err, "%s: written\n", c)
	}
	return true, nil
}

// terminal returns out if a person looks at it, else nil.
func terminal(out io.Writer) io.Writer {
	file, ok := out.(*os.File)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return out
}
