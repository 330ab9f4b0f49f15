package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// auditOptions are the flags of audit.
type auditOptions struct {
	config, output  string
	policies, raise []string
	read            clusterread.Source
	namespace       string
	allowEmpty      bool
}

const auditHelp = `audit reads the stored objects of resource.k8s.io and reports which of them would be refused
if you raised the modes of policies and the severities of rules to deny: by policy or rule,
by namespace, with object, field and message. It writes nothing. Policies and rules that are
off stay off, unless --raise names them.

Every object is checked as if it were created now, by the code of the webhook and its
configuration (--config). The author of an object is not stored: policies about users
assume an unknown user. A DeviceTaintRule is checked for the time at which its taint was
added. Labels of namespaces, by which exemptions and policies can differ, are those of the
cluster, or with --from-files those of the Namespaces in the files.

The report is deterministic: two runs on the same objects print the same bytes. Lists are
read in pages, so that many claims need little memory.

It needs the verb list for resourceclaims, resourceclaimtemplates, deviceclasses,
resourceslices and devicetaintrules of resource.k8s.io and for namespaces; with --namespace
the first two in that namespace only.

Exit codes: 0 no object would be refused, 1 at least one would be, 2 the command failed, or a
policy ended with an error or took too long.`

// AuditCommand returns the command audit.
func AuditCommand(streams cmdutil.Streams) *cobra.Command {
	var o auditOptions
	c := &cobra.Command{
		Use:   "audit",
		Short: "List stored objects that a stricter mode would refuse",
		Long:  auditHelp,
		Example: `  dra-steward audit --config site.yaml
  dra-steward audit --raise DRA-TOL-004 --namespace team-a
  dra-steward audit -o json >before.json
  kubectl get resourceclaims,deviceclasses,namespaces -A -o yaml >all.yaml; dra-steward audit --from-files all.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			report, set, err := o.report(c.Context(), streams, time.Now())
			if err != nil {
				return err
			}
			return o.write(streams, report, set)
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "configuration file of the webhook, with the current modes")
	f.StringArrayVar(&o.policies, "policies", nil, "folder or OPA bundle with policies in addition to the library (repeatable)")
	f.StringArrayVar(&o.raise, "raise", nil, "raise only this policy or rule, even if it is off (repeatable; default: all that are not off)")
	f.StringVarP(&o.namespace, "namespace", "n", "", "check only objects in this namespace")
	o.read.AddFlags(c)
	f.BoolP("all-namespaces", "A", true, "check the objects of all namespaces (the default without --namespace)")
	c.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	f.BoolVar(&o.allowEmpty, "allow-empty", false, "succeed if there are no objects to audit")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats("text", "sarif"), ", "))
	cmdutil.Complete(c, "output", cmdutil.OutputFormats("text", "sarif"))
	return c
}

// report audits what the options name.
func (o auditOptions) report(ctx context.Context, streams cmdutil.Streams, now time.Time) (audit.Result, *policy.Set, error) {
	if err := cmdutil.CheckOutput(o.output, "text", "sarif"); err != nil {
		return audit.Result{}, nil, err
	}
	file, err := config.Load(o.config)
	if err != nil {
		return audit.Result{}, nil, err
	}
	sources, err := policyload.Sources(o.policies)
	if err != nil {
		return audit.Result{}, nil, err
	}
	set, err := cmdutil.While(streams, "compiling the policies", func() (*policy.Set, error) { return policyload.Compile(ctx, sources) })
	if err != nil {
		return audit.Result{}, nil, err
	}
	options := audit.Options{Configuration: file.StewardConfiguration, Policies: set, Raise: o.raise, Now: now}
	report, err := o.check(ctx, streams, options)
	return report, set, file.Locate(err)
}

// write writes a report, and returns errFindings if there is something in it.
func (o auditOptions) write(streams cmdutil.Streams, report audit.Result, set *policy.Set) error {
	if !slices.Contains(audit.Outputs(), o.output) {
		if err := cmdutil.Print(streams.Out, o.output, report); err != nil {
			return err
		}
		return ended(report)
	}
	book, err := rulebook.Open()
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	book = append(book, rulebook.Policies(set)...)
	if err := report.Write(o.output, streams.Out, lint.Options{Here: here, Version: version.Get().Version, Commit: version.Get().Commit, Book: book}); err != nil {
		return err
	}
	return ended(report)
}

// ended is the end of the command for a report that is written.
func ended(report audit.Result) error {
	if n := len(report.Errors); n > 0 {
		return fmt.Errorf("objects that policies could not evaluate: %d", n)
	}
	if len(report.Findings) > 0 {
		return cmdutil.ErrFindings
	}
	return nil
}

// collected is what an audit has found so far.
type collected struct {
	auditor  *audit.Auditor
	objects  map[string]int
	findings []audit.Finding
	errors   []string
}

func newCollected(options audit.Options) (*collected, error) {
	auditor, err := audit.New(options)
	return &collected{auditor: auditor, objects: map[string]int{}}, err
}

func (c *collected) check(object audit.Object) error {
	findings, err := c.auditor.Check(object)
	if unknown := (review.UnknownKindError{}); errors.As(err, &unknown) {
		return nil
	}
	c.objects[object.Kind.Kind]++
	c.findings = append(c.findings, findings...)
	if failure := (audit.EvaluationError{}); errors.As(err, &failure) {
		c.errors = append(c.errors, err.Error())
		return nil
	}
	return err
}

func (c *collected) report() audit.Result {
	report := audit.Make(c.objects, c.findings)
	slices.Sort(c.errors)
	report.Errors = c.errors
	return report
}

// check audits the stored objects.
func (o auditOptions) check(ctx context.Context, streams cmdutil.Streams, options audit.Options) (audit.Result, error) {
	var found *collected
	checked := 0
	err := stored{source: o.read, namespace: o.namespace}.each(ctx, streams, &options, func() (visit, error) {
		var err error
		found, err = newCollected(options)
		return func(object audit.Object) error { checked++; return found.check(object) }, err
	})
	if err != nil {
		return audit.Result{}, err
	}
	if checked > 0 || o.allowEmpty {
		return found.report(), nil
	}
	of, in := "the cluster has", ""
	if o.read.Files != nil {
		of = "the files have"
	}
	if o.namespace != "" {
		in = " in namespace " + o.namespace
	}
	printable.Printf(streams.Err, "nothing checked: %s no objects of resource.k8s.io or dra-steward.io%s; if that is right, set --allow-empty\n", of, in)
	return audit.Result{}, cmdutil.ErrUnknown
}
