// Package policy has the commands that list, test, evaluate, measure and export policies.
package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

const policyHelp = `policy shows, tests and evaluates the Rego policies of the library and, with --policies,
of folders and OPA bundles. It runs the same code as the webhook.`

// Command returns the command policy.
func Command(streams cmdutil.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show, write, test and evaluate Rego policies",
		Long:  policyHelp,
		Example: `  dra-steward policy list
  dra-steward policy explain DRA-TOL-001
  dra-steward policy new ACME-GPU-001
  dra-steward policy test --policies ./policies
  dra-steward policy eval claim.yaml`,
		Args: cmdutil.NoSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var paths []string
	c.PersistentFlags().StringArrayVar(&paths, "policies", nil, "folder or OPA bundle with policies in addition to the library (repeatable)")
	c.AddCommand(policyListCommand(streams, &paths), policyTestCommand(streams, &paths), policyNewCommand(streams), policyLintCommand(streams, &paths),
		policyExplainCommand(streams, &paths), policyDocsCommand(streams, &paths), policyEvalCommand(streams, &paths), policyExportCommand(streams, &paths), policyBenchCommand(streams, &paths))
	return c
}

func policyListCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the policies with their default modes", Args: cobra.NoArgs,
		Long:    `list prints the code, mode, severity and title of every policy.`,
		Example: `  dra-steward policy list`,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := cmdutil.ParsePolicies(c, *paths)
			if err != nil {
				return err
			}
			table := printable.NewTable(streams.Out, 2)
			for _, p := range set.Policies() {
				printable.Printf(table, "%s\t%s\t%s\t%s\n", p.Code, p.Mode, p.Severity, p.Title)
			}
			return table.Flush()
		},
	}
}

func policyLintCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	return &cobra.Command{
		Use: "lint", Short: "Compile the policies and check their METADATA", Args: cobra.NoArgs,
		Long: `lint compiles the policies strictly and against the schema of their input, and checks
their METADATA, as the webhook does before it loads them.`,
		Example: `  dra-steward policy lint --policies ./policies`,
		RunE: func(c *cobra.Command, _ []string) error {
			sources, err := policyload.Sources(*paths)
			if err != nil {
				return err
			}
			set, err := policy.Parse(c.Context(), sources...)
			if err != nil {
				_ = printable.Page(streams.Out, printable.Error(err)+"\n")
				return cmdutil.ErrFindings
			}
			printable.Printf(streams.Out, "%d policies are valid (revision %s)\n", len(set.Policies()), set.Revision())
			return nil
		},
	}
}

func policyExplainCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	return &cobra.Command{
		Use: "explain CODE", Short: "Explain a policy", Args: cobra.ExactArgs(1),
		Long:    `explain prints the purpose of a policy, its mode, and its parameters with their defaults.`,
		Example: `  dra-steward policy explain DRA-TOL-001`,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return cmdutil.CompletePolicies(c, *paths, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			set, err := cmdutil.ParsePolicies(c, *paths)
			if err != nil {
				return err
			}
			p, found := set.Policy(args[0])
			if !found {
				var codes []string
				for _, p := range set.Policies() {
					codes = append(codes, p.Code)
				}
				if hint := manifest.DidYouMean(args[0], codes); hint != "" {
					return fmt.Errorf("there is no policy %q%s", args[0], hint)
				}
				return fmt.Errorf("there is no policy %q; \"dra-steward policy list\" lists all", args[0])
			}
			err = printable.Page(streams.Out, p.Markdown())
			return err
		},
	}
}

func policyDocsCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	return &cobra.Command{
		Use: "docs", Short: "Print the page of all policies as Markdown", Args: cobra.NoArgs,
		Long:    `docs prints the page docs/policies.md.`,
		Example: `  dra-steward policy docs > policies.md`,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := cmdutil.ParsePolicies(c, *paths)
			if err != nil {
				return err
			}
			err = printable.Page(streams.Out, set.Markdown())
			return err
		},
	}
}

// evalOptions are the flags of "policy eval".
type evalOptions struct {
	config, user string
	groups       []string
}

func policyEvalCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	var o evalOptions
	c := &cobra.Command{
		Use: "eval FILE|FOLDER|- ...", Short: "Evaluate the policies on manifests", Args: cobra.MinimumNArgs(1),
		Long: `eval prints the violations of manifests, as the webhook would report them to --user.

Exit codes: 0 nothing is denied, 1 an object is denied, 2 the command failed, or a policy
ended with an error or took too long.`,
		Example: `  dra-steward policy eval --user jane claim.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			set, err := policyload.Load(c.Context(), *paths)
			if err != nil {
				return err
			}
			return o.run(streams, set, args)
		},
	}
	c.Flags().StringVar(&o.config, "config", "", "configuration file with modes, parameters and exemptions")
	c.Flags().StringVar(&o.user, "user", "", "user name of the author, as authenticated by the API server")
	c.Flags().StringArrayVar(&o.groups, "group", nil, "a group of the author (repeatable)")
	return c
}

func (o evalOptions) run(streams cmdutil.Streams, set *policy.Set, args []string) error {
	file, err := config.Load(o.config)
	if err != nil {
		return err
	}
	reviewer, err := review.New(file.StewardConfiguration)
	if err == nil {
		reviewer.Policies, err = policyload.NewEngine(set, file.StewardConfiguration, 0)
	}
	if err != nil {
		return file.Locate(err)
	}
	var result error
	var failures []error
	evaluated := 0
	reader := manifest.Reader{Stdin: streams.In, MaxBytes: 16 << 20}
	for document, err := range reader.Walk(args...) {
		if err != nil {
			return err
		}
		if !document.Ours() {
			continue
		}
		evaluated++
		denied, err := o.evaluate(streams, reviewer, document)
		if failure := (evaluationError{}); errors.As(err, &failure) {
			failures = append(failures, err)
		} else if err != nil {
			return err
		}
		if denied {
			result = cmdutil.ErrFindings
		}
	}
	if evaluated == 0 {
		return errors.New("nothing to evaluate: the input has no objects of resource.k8s.io or dra-steward.io")
	}
	return cmp.Or(errors.Join(failures...), result)
}

// evaluate prints the violations of a document.
func (o evalOptions) evaluate(streams cmdutil.Streams, reviewer review.Reviewer, document *manifest.Document) (denied bool, _ error) {
	object, problems := manifest.Decode(document)
	if object == nil {
		return false, fmt.Errorf("%s:%d: %s %s: %v", document.File, document.Line, document.Kind, document.Name, problems)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return false, err
	}
	request := review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind(document.Kind), Object: data, Namespace: object.GetNamespace(), Now: time.Now()}
	if o.user != "" || len(o.groups) > 0 {
		request.User = &authenticationv1.UserInfo{Username: o.user, Groups: o.groups}
	}
	answer, err := reviewer.Review(request)
	if unknown := (review.UnknownKindError{}); errors.As(err, &unknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, f := range answer.Findings {
		if ruleid.IsPolicy(f.Rule) || f.Rule == review.PolicyError {
			denied = denied || f.Severity == validate.Error
			o.print(streams, document, f, map[validate.Severity]string{validate.Error: "deny", validate.Warning: "warn"}[f.Severity])
		}
	}
	for _, f := range answer.Audited {
		o.print(streams, document, f, "audit")
	}
	for _, e := range answer.Exempted {
		if ruleid.IsPolicy(e.Rule) {
			o.print(streams, document, e.Finding, "exempt ("+e.Reason+")")
		}
	}
	if err := answer.Decision.Err(); err != nil {
		return denied, evaluationError{fmt.Errorf("%s:%d: %s %s: policies were not evaluated: %w", document.File, document.Line, document.Kind, document.Name, err)}
	}
	return denied, nil
}

// An evaluationError is about an object that policies could not evaluate.
type evaluationError struct{ error }

func (o evalOptions) print(streams cmdutil.Streams, document *manifest.Document, f review.Finding, what string) {
	line, column := document.Position(f.Path)
	printable.Printf(streams.Out, "%s:%d:%d: %s: %s %s: %s [%s]\n", document.File, line, column, what, document.Kind, document.Name,
		strings.TrimPrefix(f.Path+": "+f.Message, ": "), f.Rule)
}
