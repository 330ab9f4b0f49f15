package lint

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestEnd: errors fail a run, warnings only on request; a file that cannot be read is the worst.
func TestEnd(t *testing.T) {
	claim := func(severities ...validate.Severity) lint.Result {
		r := lint.Result{Kind: "ResourceClaim", Ours: 1}
		for _, severity := range severities {
			r.Reports = append(r.Reports, lint.Diagnostic{Severity: severity})
		}
		return r
	}
	unread := lint.Result{Err: fs.ErrPermission}
	for name, tt := range map[string]struct {
		tally   tally
		results []lint.Result
		want    error
	}{
		"clean":                     {tally{}, []lint.Result{claim()}, nil},
		"a warning":                 {tally{}, []lint.Result{claim(validate.Warning)}, nil},
		"a warning that is to fail": {tally{failOn: "warning"}, []lint.Result{claim(validate.Warning)}, cmdutil.ErrFindings},
		"an error":                  {tally{}, []lint.Result{claim(validate.Warning, validate.Error)}, cmdutil.ErrFindings},
		"an unread file":            {tally{}, []lint.Result{claim(validate.Error), unread}, fs.ErrPermission},
		"nothing, on request":       {tally{allowEmpty: true}, nil, nil},
		"only other groups":         {tally{allowEmpty: true}, []lint.Result{{Kind: "Pod", Skipped: true}}, nil},
		"a valid verdict":           {tally{verdicts: true}, []lint.Result{{Kind: "ResourceClaim", Ours: 1, Verdict: lint.Valid}}, nil},
		"another verdict":           {tally{verdicts: true}, []lint.Result{{Kind: "ResourceClaim", Ours: 1, Verdict: lint.Invalid}}, cmdutil.ErrFindings},
	} {
		for _, r := range tt.results {
			tt.tally.add(r)
		}
		if err := tt.tally.end(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	var empty tally
	if err := empty.end(); err == nil || errors.Is(err, cmdutil.ErrFindings) {
		t.Errorf("nothing to check: %v", err)
	}
}
