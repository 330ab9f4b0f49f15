// Package lint has the commands that need no cluster: lint and explain.
package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

type lintOptions struct {
	config, output, failOn string
	kubernetes, maxSize    string
	gates                  map[string]string
	rules                  lint.Selection
	existing, schemas      []string
	policies               []string
	verdicts, fix, diff    bool
	allowEmpty             bool
	helm                   helmOptions
}

var severities = []string{validate.Error.String(), validate.Warning.String()}

const lintHelp = `lint reads manifests (YAML or JSON, several documents per file, lists expanded), applies
the defaults, drops the fields that the API server would drop, and checks every object
of resource.k8s.io by the rules of the API server and the webhook. Of objects of other API
groups it checks the pods that use devices, in whatever kind has them, and skips the rest. A folder includes all *.yaml, *.yml and *.json files below it, but not
those of folders whose names begin with a dot; "-" is standard input.

Every finding has file, line and column, the object, the field and the rule;
'dra-steward explain RULE' prints the reason for the rule and correct examples.

lint assumes the newest known API server with its default feature gates. Use
--kubernetes-version and --feature-gates for another one: lint then also finds fields
that it does not know or does not store. The version "next" is the newest one with what
Kubernetes has merged for the version after it.

A repository configures lint in .dra-steward.yaml: limits, severities, and in the section
lint the version and gates of its clusters and the files to ignore. The file is searched
from the folder of each manifest upwards, up to the folder with .git. --config names one
file for all manifests, --config "" none.

Rules that need other objects (does the class exist, do the slices of a pool agree) take
those of the input for existing, and those of the files that --existing names, such as the
output of 'kubectl get deviceclasses,resourceslices,namespaces -o yaml'. The labels of
namespaces come from there as well.

Of each rule lint lists at most 1000 findings for an object, and counts the others. A link
in a folder that leads out of it, or to nothing, is not followed, which is a warning.

--policies library also evaluates the Rego policies of dra-steward, as the webhook does;
--policies FOLDER adds those in a folder, if their tests pass. Modes, parameters and
exemptions come from the configuration file. The author is unknown offline: policies
about users assume an unknown user.

--verdicts prints the verdict of the API server alone on the creation of every object:
valid, strict-warning (an unknown field: kubectl refuses it, other clients lose it),
invalid, strict+invalid or decode-failed. The configuration of the site is ignored. What
cannot be read has no verdict: standard error names it.

--helm renders charts, folders or .tgz files, with the library of Helm, without a cluster
and without network, and checks the objects. A finding has the line of the template if the
rendered line occurs exactly once in it. Otherwise it has the nearest such line above, and
names the line of the rendered text. Templates see the version of --kubernetes-version. A
template that fails, also by 'required', is an error. So is a chart that takes too long.

--fix writes defaults to the files, at present the operator Equal of tolerations.
Comments, order and everything else stay as they are. --diff only shows the changes.

Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 the command failed. With
--verdicts, 1 means that an object is not valid; with --diff, that --fix would change a
file.`

// Command returns the command lint.
func Command(streams cmdutil.Streams) *cobra.Command {
	var o lintOptions
	c := &cobra.Command{
		Use:   "lint FILE|FOLDER|CHART|- ...",
		Short: "Check manifests without a cluster",
		Long:  lintHelp,
		Example: `  dra-steward lint manifests/
  dra-steward lint --config site.yaml -o json claim.yaml
  helm template my-driver | dra-steward lint -
  dra-steward lint --helm my-driver/ --values site.yaml --set gpus=8
  dra-steward lint --kubernetes-version 1.35 --feature-gates DRADeviceTaints=true deploy/
  dra-steward lint -o sarif . >dra.sarif      # for code scanning
  dra-steward lint --diff manifests/          # what --fix would write`,
		RunE: func(c *cobra.Command, args []string) error {
			return runLint(c.Context(), streams, o, c.Flags().Changed("config"), args)
		},
	}
	lintFlags(c, &o)
	return c
}

func lintFlags(c *cobra.Command, o *lintOptions) {
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "configuration file for all files; \"\" for none (default: "+lint.ConfigurationFile+", searched upwards)")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(lint.Outputs(), ", "))
	f.StringVar(&o.failOn, "fail-on", "error", "minimum severity for exit code 1: error or warning")
	f.StringVar(&o.kubernetes, "kubernetes-version", "", "version of the API server: "+strings.Join(lint.Minors(), ", ")+" (default: the newest)")
	f.StringToStringVar(&o.gates, "feature-gates", nil, "feature gates of the API server that differ from its defaults: A=true,B=false")
	f.StringArrayVar(&o.rules.Only, "rule", nil, "report only this rule, and documents that cannot be checked (repeatable)")
	f.StringArrayVar(&o.rules.Skip, "skip-rule", nil, "do not report this rule (repeatable)")
	f.StringArrayVar(&o.existing, "existing", nil, "file or folder with existing objects (DeviceClasses, ResourceSlices, Namespaces), for rules and exemptions that need them (repeatable)")
	f.StringArrayVar(&o.policies, "policies", nil, "also evaluate Rego policies: \"library\" for those of dra-steward, or a folder or OPA bundle with additional ones (repeatable)")
	f.StringArrayVar(&o.schemas, "schemas", nil, "folder with additional JSON Schemas of opaque parameters (*.schema.json) (repeatable)")
	f.StringVar(&o.maxSize, "max-document-size", "16Mi", "maximum size of one document; a list is one document")
	f.BoolVar(&o.verdicts, "verdicts", false, "print the verdict of the API server on every object instead of findings")
	f.BoolVar(&o.fix, "fix", false, "write missing defaults to the files, then check them")
	f.BoolVar(&o.diff, "diff", false, "print the changes of --fix as a unified diff, without checking")
	f.BoolVar(&o.allowEmpty, "allow-empty", false, "succeed if the input has no objects to check")
	o.helm.flags(f)
	cmdutil.Complete(c, "output", lint.Outputs())
	cmdutil.Complete(c, "fail-on", severities)
	cmdutil.Complete(c, "kubernetes-version", lint.Minors())
	cmdutil.CompleteWith(c, "feature-gates", cmdutil.CompleteGates)
	cmdutil.CompleteWith(c, "rule", cmdutil.CompleteRule)
	cmdutil.CompleteWith(c, "skip-rule", cmdutil.CompleteRule)
}

func runLint(ctx context.Context, streams cmdutil.Streams, o lintOptions, configured bool, args []string) error {
	if len(args) == 0 {
		return errors.New("no input: name files or folders, or - for standard input")
	}
	if err := o.helm.check(o.fix || o.diff); err != nil {
		return err
	}
	linter, err := o.linter(ctx, streams, configured)
	if err != nil {
		return err
	}
	if o.diff || o.fix {
		if err := fixFiles(streams, linter, o.diff, args); err != nil || o.diff {
			return err
		}
	}
	printer, err := o.printer(streams, linter.Sites.Book)
	if err != nil {
		return err
	}
	tally := tally{failOn: o.failOn, verdicts: o.verdicts, allowEmpty: o.allowEmpty}
	progress := lint.Progress{Out: streams.Terminal, Now: time.Now}
	for result := range o.results(ctx, linter, args) {
		if err := ctx.Err(); err != nil {
			return err
		}
		progress.Count(result.File)
		if len(result.Reports) > 0 || result.Partial != "" || o.verdicts {
			progress.Hide()
		}
		o.note(streams, result)
		tally.add(result)
		if err := printer.Print(result); err != nil {
			return err
		}
	}
	progress.Hide()
	if err := printer.Close(); err != nil {
		return err
	}
	if o.output == "text" && !o.verdicts {
		printable.Printf(streams.Err, "%s\n", tally.summary(streams.Program()))
	}
	return tally.end()
}

// note writes what is no finding about an object.
func (o lintOptions) note(streams cmdutil.Streams, result lint.Result) {
	if result.Partial != "" {
		printable.Printf(streams.Err, "%s:%d: not checked: %s\n", result.File, result.Line, result.Partial)
	}
	if o.verdicts {
		for _, report := range result.Reports { // of what cannot be read
			printable.Printf(streams.Err, "%s\n", report)
		}
	}
}

// results are those of the files, or of the charts with --helm.
func (o lintOptions) results(ctx context.Context, linter lint.Linter, args []string) iter.Seq[lint.Result] {
	if !o.helm.on {
		return linter.Run(args...)
	}
	return linter.RunCharts(ctx, o.helm.renderer(o.kubernetes), args...)
}

// linter checks the flags and returns what they ask for.
func (o lintOptions) linter(ctx context.Context, streams cmdutil.Streams, configured bool) (l lint.Linter, err error) {
	if !slices.Contains(severities, o.failOn) {
		return l, fmt.Errorf("--fail-on %q: must be error or warning", o.failOn)
	}
	size, err := quantity.Parse(o.maxSize)
	if err != nil || size.Sign() <= 0 || size.CmpInt64(1<<30) > 0 {
		return l, fmt.Errorf("--max-document-size %q: must be a number of bytes such as 64Mi, at most 1Gi", o.maxSize)
	}
	book, err := rulebook.Open()
	if err != nil {
		return l, err
	}
	set, err := o.policySet(ctx)
	if err != nil {
		return l, err
	}
	book = append(book, rulebook.Policies(set)...)
	if err := o.rules.Check(book); err != nil {
		return l, err
	}
	gates, err := o.switches()
	if err != nil {
		return l, err
	}
	reader := manifest.Reader{Stdin: streams.In, MaxBytes: int(size.Value())}
	existing, err := lint.Existing(reader, o.existing)
	if err != nil {
		return l, fmt.Errorf("--existing: %w", err)
	}
	sites := &lint.Sites{Existing: existing, KubernetesVersion: o.kubernetes, FeatureGates: gates, Policies: set, Book: book}
	for _, folder := range o.schemas {
		sites.Schemas = append(sites.Schemas, os.DirFS(folder))
	}
	switch {
	case o.verdicts && configured && o.config != "":
		return l, errors.New("--verdicts ignores the configuration: omit --config")
	case configured || o.verdicts:
		sites.File = &o.config
	}
	if sites.File != nil || o.kubernetes != "" || len(gates)+len(o.schemas) > 0 {
		err = sites.Check()
	}
	return lint.Linter{Reader: reader, Sites: sites, Rules: o.rules, Verdicts: o.verdicts, Namespace: cmp.Or(o.helm.namespace, "default"), Now: time.Now()}, err
}

// policySet compiles the policies that are asked for, nil for none.
func (o lintOptions) policySet(ctx context.Context) (*policy.Set, error) {
	if len(o.policies) == 0 {
		return nil, nil
	}
	more := slices.DeleteFunc(slices.Clone(o.policies), func(name string) bool { return name == "library" })
	return policyload.Load(ctx, more)
}

// switches are the feature gates as they are wanted.
func (o lintOptions) switches() (map[string]bool, error) {
	gates := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(o.gates)) {
		switch strings.ToLower(o.gates[name]) {
		case "true":
			gates[name] = true
		case "false":
			gates[name] = false
		default:
			return nil, fmt.Errorf("--feature-gates %s=%s: must be true or false", name, o.gates[name])
		}
	}
	return gates, nil
}

func (o lintOptions) printer(streams cmdutil.Streams, book rulebook.Book) (lint.Printer, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if o.verdicts {
		return lint.NewVerdictPrinter(o.output, streams.Out, here)
	}
	failOn, err := validate.ParseSeverity(o.failOn)
	if err != nil {
		return nil, err
	}
	return lint.NewPrinter(o.output, streams.Out, lint.Options{Here: here, FailOn: failOn, Version: version.Get().Version, Commit: version.Get().Commit, Book: book})
}
