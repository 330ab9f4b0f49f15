package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/tester"
)

// testTimeout ends one test.
const testTimeout = 5 * time.Second

// A TestReport is the results of the tests of a set.
type TestReport struct {
	Tests []TestResult `json:"tests"`
	// Uncovered are the places of policies, as file:row, that no test has reached.
	Uncovered []string `json:"uncovered,omitempty"`
	// Untested are the codes of policies that no test has reached at all.
	Untested []string `json:"untested,omitempty"`
	// Coverage is the share of lines that tests have reached, in percent.
	Coverage float64 `json:"coverage"`
}

// A TestResult is the result of one test.
type TestResult struct {
	// Name is package and rule, Location file:row.
	Name     string        `json:"name"`
	Location string        `json:"location"`
	Duration time.Duration `json:"durationNanoseconds"`
	// Problem is empty if the test passes.
	Problem string `json:"problem,omitempty"`
	// Broken is set if the test did not finish: it ended with an error or took too long.
	Broken bool `json:"broken,omitempty"`

	at *ast.Location
}

// Err lists the tests that fail, nil if none does.
func (r TestReport) Err() error {
	var errs []error
	for _, test := range r.Tests {
		if test.Problem != "" {
			errs = append(errs, at(test.at, "%s: %s", test.Name, test.Problem))
		}
	}
	return errors.Join(errs...)
}

// Test runs the tests of the set whose names, such as dra.site.example_test.test_passes, match
// run; all where it is nil.
func (s *Set) Test(ctx context.Context, run *regexp.Regexp) (TestReport, error) {
	modules := map[string]*ast.Module{}
	maps.Copy(modules, s.modules)
	maps.Copy(modules, s.tests)
	compiler, err := newCompiler(s.policies)
	if err != nil {
		return TestReport{}, err
	}
	coverage := cover.New()
	results, err := tester.NewRunner().SetCompiler(compiler).SetModules(modules).SetTimeout(testTimeout).
		SetCoverageQueryTracer(coverage).RaiseBuiltinErrors(true).Filter(filterOf(run, modules)).RunTests(ctx, nil)
	if err != nil {
		return TestReport{}, err
	}
	var report TestReport
	for result := range results {
		report.Tests = append(report.Tests, testResult(result))
	}
	slices.SortFunc(report.Tests, func(a, b TestResult) int { return cmp.Compare(a.Name, b.Name) })
	covered := coverage.Report(s.modules)
	report.Coverage = covered.Coverage
	for _, file := range slices.Sorted(maps.Keys(covered.Files)) {
		for _, part := range covered.Files[file].NotCovered {
			report.Uncovered = append(report.Uncovered, fmt.Sprintf("%s:%d", file, part.Start.Row))
		}
	}
	for _, p := range s.policies {
		if file := covered.Files[p.File]; file == nil || len(file.Covered) == 0 {
			report.Untested = append(report.Untested, p.Code)
		}
	}
	return report, nil
}

// filterOf is the filter of OPA, whose names begin with "data.", for the rules whose names match run.
func filterOf(run *regexp.Regexp, modules map[string]*ast.Module) string {
	if run == nil {
		return ""
	}
	names := []string{"^$"} // none, if none matches
	for _, module := range modules {
		for _, rule := range module.Rules {
			name := module.Package.Path.String() + "." + rule.Head.Ref().GroundPrefix().String()
			if run.MatchString(strings.TrimPrefix(name, "data.")) {
				names = append(names, "^"+regexp.QuoteMeta(name)+"$")
			}
		}
	}
	return strings.Join(names, "|")
}

func testResult(result *tester.Result) TestResult {
	test := TestResult{
		Name:     strings.TrimPrefix(result.Package, "data.") + "." + result.Name,
		Location: fmt.Sprintf("%s:%d", result.Location.File, result.Location.Row),
		Duration: result.Duration,
		at:       result.Location,
	}
	switch {
	case result.Error != nil:
		test.Problem, test.Broken = result.Error.Error(), true
	case result.Skip:
		test.Problem = "is skipped: a test that is not run proves nothing, remove it"
	case !result.Pass():
		test.Problem = "fails"
		if result.FailedAt != nil {
			test.Problem += " at " + result.FailedAt.String()
		}
	}
	return test
}
