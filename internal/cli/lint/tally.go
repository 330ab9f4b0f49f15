package lint

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A tally is what lint has found so far.
type tally struct {
	failOn     string
	verdicts   bool
	allowEmpty bool

	checked, skipped, errors, warnings int
	failed                             bool
	// partial are the objects that are not checked, though they are of our groups.
	partial int
	// unopened are files that could not be read at all.
	unopened []error
}

func (t *tally) add(r lint.Result) {
	switch {
	case r.Err != nil:
		t.unopen(r.Err)
	case r.Partial != "":
		t.partial++
	case r.Skipped:
		t.skipped++
	case r.Kind != "":
		t.checked++
	}
	for _, report := range r.Reports {
		if report.Severity == validate.Error {
			t.errors++
		} else {
			t.warnings++
		}
		t.failed = t.failed || report.Severity == validate.Error || t.failOn == report.Severity.String()
	}
	t.failed = t.failed || t.verdicts && r.Ours > 0 && r.Verdict != lint.Valid
}

// unopen keeps an error once: a configuration file that is wrong is so for all files.
func (t *tally) unopen(err error) {
	if !slices.ContainsFunc(t.unopened, func(known error) bool { return known.Error() == err.Error() }) {
		t.unopened = append(t.unopened, err)
	}
}

func (t *tally) summary(program string) string {
	partial := ""
	if t.partial > 0 {
		partial = fmt.Sprintf(", %d not checked", t.partial)
	}
	summary := fmt.Sprintf("%s checked, %d skipped (other API groups)%s: %s, %s",
		plural.Of(t.checked, "object"), t.skipped, partial, plural.Of(t.errors, "error"), plural.Of(t.warnings, "warning"))
	if t.errors+t.warnings > 0 {
		summary += "; run '" + program + " explain RULE' for details"
	}
	return summary
}

// end is the end of the run: a file that could not be opened weighs more than a
// finding, since its content is unknown.
func (t *tally) end() error {
	if len(t.unopened) > 0 {
		return errors.Join(t.unopened...)
	}
	if t.failed {
		return cmdutil.ErrFindings
	}
	if t.checked == 0 && !t.allowEmpty {
		if t.partial > 0 {
			return errors.New("nothing is checked: the objects are patches of Kustomize or encrypted; if that is right, set --allow-empty")
		}
		return errors.New("nothing to check: the input has no objects of resource.k8s.io or dra-steward.io; if that is right, set --allow-empty")
	}
	return nil
}
