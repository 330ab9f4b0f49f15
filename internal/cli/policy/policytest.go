package policy

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// testOptions are the flags of "policy test".
type testOptions struct {
	run, output   string
	verbose       bool
	allowUntested bool
}

func policyTestCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use: "test", Short: "Run the tests of the policies", Args: cobra.NoArgs,
		Long: `test runs the tests of the policies, and lists the lines that no test reaches.

Exit codes: 0 all tests pass, 1 a test fails or a policy has no test, 2 a test ended with an
error or took too long.`,
		Example: `  dra-steward policy test --policies ./policies
  dra-steward policy test --policies ./policies --run 'test_.*_passes$' -v`,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := cmdutil.ParsePolicies(c, *paths)
			if err != nil {
				return err
			}
			return o.test(c, streams, set)
		},
	}
	c.Flags().StringVar(&o.run, "run", "", "run only tests whose name, such as dra.site_test.test_passes, matches this regular expression")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "list every test with its duration")
	c.Flags().BoolVar(&o.allowUntested, "allow-untested", false, "do not fail for a policy that no test reaches")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats("text"), ", "))
	cmdutil.Complete(c, "output", cmdutil.OutputFormats("text"))
	return c
}

func (o testOptions) test(c *cobra.Command, streams cmdutil.Streams, set *policy.Set) error {
	if err := cmdutil.CheckOutput(o.output, "text"); err != nil {
		return err
	}
	run, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("--run %q: %w", o.run, err)
	}
	report, err := cmdutil.While(streams, "running the tests of the policies", func() (policy.TestReport, error) { return set.Test(c.Context(), run) })
	if err != nil {
		return err
	}
	if o.run != "" && len(report.Tests) == 0 {
		return fmt.Errorf("--run %q: no test has such a name", o.run)
	}
	if o.run != "" || o.allowUntested {
		report.Untested = nil
	}
	if o.output == "text" {
		o.print(streams.Out, report)
	} else if err := cmdutil.Print(streams.Out, o.output, report); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(report.Tests, func(r policy.TestResult) bool { return r.Broken }):
		return errors.New("tests did not finish")
	case report.Err() != nil, len(report.Untested) > 0:
		return cmdutil.ErrFindings
	}
	return nil
}

func (o testOptions) print(out io.Writer, report policy.TestReport) {
	if o.verbose {
		for _, test := range report.Tests {
			result := "pass"
			if test.Problem != "" {
				result = "FAIL"
			}
			printable.Printf(out, "%s %s (%s)\n", result, test.Name, test.Duration.Round(10*time.Microsecond))
		}
	}
	if o.run == "" { // what other tests reach is not known
		for _, place := range report.Uncovered {
			printable.Printf(out, "%s: no test reaches this line\n", place)
		}
		printable.Printf(out, "%d tests, coverage %.1f %%\n", len(report.Tests), report.Coverage)
	} else {
		printable.Printf(out, "%d tests\n", len(report.Tests))
	}
	if err := report.Err(); err != nil {
		_ = printable.Page(out, printable.Error(err)+"\n")
	}
	if len(report.Untested) > 0 {
		printable.Printf(out, "no test reaches %s: write one, or set --allow-untested\n", strings.Join(report.Untested, ", "))
	}
}
