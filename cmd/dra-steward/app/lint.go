package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rulebook"
	"github.com/dra-steward/dra-steward/pkg/review"
)

type lintOptions struct {
	config, output, failOn string
}

var (
	outputs    = []string{"text", "json"}
	severities = []string{review.Error.String(), review.Warning.String()}
)

func lintCommand(streams Streams) *cobra.Command {
	var o lintOptions
	c := &cobra.Command{
		Use:   "lint FILE|FOLDER|- ...",
		Short: "Judge manifests without a cluster",
		Long: `lint reads manifests (YAML or JSON, several documents per file, lists unfolded),
fills in the defaults and judges every object of resource.k8s.io by the rules that
the API server and the webhook apply. Objects of other groups are skipped. A folder
stands for all *.yaml, *.yml and *.json below it, "-" for standard input.

Every finding names file, line and column, the object, the field and the rule;
'dra-steward explain RULE' says why the rule exists and what would be right.

Exit codes: 0 nothing found that --fail-on names, 1 something found, 2 could not run.`,
		Example: `  dra-steward lint manifests/
  dra-steward lint --config site.yaml -o json claim.yaml
  helm template my-driver | dra-steward lint -`,
		RunE: func(_ *cobra.Command, args []string) error { return lint(streams, o, args) },
	}
	c.Flags().StringVar(&o.config, "config", "", "configuration file with the site's limits (default: the API server's limits)")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "how to print findings: text or json")
	c.Flags().StringVar(&o.failOn, "fail-on", "error", "least severity that makes the exit code 1: error or warning")
	complete(c, "output", outputs)
	complete(c, "fail-on", severities)
	return c
}

// complete offers the values of a flag to the shell. The error can only say that
// there is no such flag, which the completion test would show.
func complete(c *cobra.Command, flag string, values []string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func lint(streams Streams, o lintOptions, args []string) error {
	if len(args) == 0 {
		return errors.New("nothing to judge: name files or folders, or - for standard input")
	}
	if !slices.Contains(outputs, o.output) {
		return fmt.Errorf("--output %q: must be text or json", o.output)
	}
	if !slices.Contains(severities, o.failOn) {
		return fmt.Errorf("--fail-on %q: must be error or warning", o.failOn)
	}
	c, err := config.Load(o.config)
	if err != nil {
		return err
	}
	reviewer, err := review.New(c)
	if err != nil {
		return fmt.Errorf("%s: %w", o.config, err)
	}
	l := linter{reviewer: reviewer, now: time.Now()}
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(args...) {
		l.look(document, err)
	}
	if err := l.print(streams, o.output); err != nil {
		return err
	}
	return l.verdict(o.failOn)
}

// A linter judges documents one by one and collects what it finds.
type linter struct {
	reviewer review.Reviewer
	now      time.Time

	reports []Report
	// judged and skipped count objects; unopened are files that could not be read
	// at all.
	judged, skipped int
	unopened        []error
}

func (l *linter) look(document *manifest.Document, err error) {
	switch place := (*manifest.Error)(nil); {
	case errors.As(err, &place) && place.Line > 0:
		l.reports = append(l.reports, Report{File: place.File, Line: place.Line, Column: place.Column,
			Rule: rulebook.Unreadable, Severity: review.Error, Message: place.Message})
	case err != nil:
		l.unopened = append(l.unopened, err)
	case !document.Ours():
		l.skipped++
	default:
		l.judged++
		before := len(l.reports)
		l.judge(document)
		slices.SortStableFunc(l.reports[before:], func(a, b Report) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
}

func (l *linter) judge(document *manifest.Document) {
	object, problems := manifest.Decode(document)
	for _, p := range problems {
		l.reports = append(l.reports, report(document, p.Line, p.Column, review.Finding{
			Rule: rulebook.FormRule(p.Kind), Severity: review.Error, Path: p.Path, Message: p.Message}))
	}
	if object == nil {
		return
	}
	if version, known := document.Version(); known && version.OffByDefault {
		l.add(document, review.Finding{Rule: rulebook.DeprecatedVersion, Severity: review.Warning, Path: "apiVersion",
			Message: fmt.Sprintf("%s is not served by default; use resource.k8s.io/v1", version)})
	}
	for _, subresource := range subresources(document.Kind) {
		l.review(document, object, subresource)
	}
}

// subresources are those that a stored object is judged by: a file may hold what a
// cluster returned, with its status.
func subresources(kind string) []string {
	if kind == "ResourceClaim" {
		return []string{"", "status"}
	}
	return []string{""}
}

func (l *linter) review(document *manifest.Document, object manifest.Object, subresource string) {
	data, err := json.Marshal(object)
	if err == nil {
		var answer review.Answer
		answer, err = l.reviewer.Review(review.Request{
			Kind:   resourceapi.SchemeGroupVersion.WithKind(document.Kind),
			Object: data, Subresource: subresource, Now: l.now,
		})
		for _, finding := range answer.Findings {
			l.add(document, finding)
		}
	}
	if err != nil {
		l.add(document, review.Finding{Rule: rulebook.WrongType, Severity: review.Error, Message: err.Error()})
	}
}

func (l *linter) add(document *manifest.Document, finding review.Finding) {
	line, column := document.Position(finding.Path)
	l.reports = append(l.reports, report(document, line, column, finding))
}

// verdict is the end of the run: a file that could not be opened weighs more than a
// finding, since nobody knows what is in it.
func (l *linter) verdict(failOn string) error {
	if len(l.unopened) > 0 {
		return errors.Join(l.unopened...)
	}
	for _, r := range l.reports {
		if r.Severity == review.Error || failOn == r.Severity.String() {
			return errFindings
		}
	}
	return nil
}
