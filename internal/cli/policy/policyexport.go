package policy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/rules/admissionpolicy"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/review"
)

type exportOptions struct {
	config   string
	policies *[]string
	excluded []string
}

func policyExportCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	o := exportOptions{policies: paths}
	c := &cobra.Command{
		Use:   "export vap",
		Short: "Write the policies as ValidatingAdmissionPolicies, which need no webhook",
		Long: `export vap writes the policies in force as ValidatingAdmissionPolicies with their bindings,
and the defaults that CEL supports as MutatingAdmissionPolicies (1.36 and later). The API
server evaluates them without a webhook: use them where you cannot install a webhook, or in
addition to one. Modes, parameters, exemptions and namespaces come from the configuration.
The comments at the top list what CEL does not support.

Policies in mode deny also refuse claims and templates that the API server cannot evaluate.
They only warn about slices, so that drivers can always publish.

Differences: claims and templates are checked only when they are created, and messages do
not have the field.`,
		Example: `  dra-steward policy export vap | kubectl apply -f -
  dra-steward policy export vap --config site.yaml > admission.yaml`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []cobra.Completion{cobra.CompletionWithDesc("vap", "ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1")},
		RunE: func(c *cobra.Command, _ []string) error {
			objects, left, err := exportPolicies(c.Context(), o)
			if err != nil {
				return err
			}
			return writeExported(streams.Out, objects, left)
		},
	}
	c.Flags().StringVar(&o.config, "config", "", "configuration file with modes, parameters and exemptions")
	c.Flags().StringSliceVar(&o.excluded, "exclude-namespaces", []string{"kube-system"}, "namespaces that are not checked")
	return c
}

func exportPolicies(ctx context.Context, o exportOptions) (objects []any, left []admissionpolicy.Left, _ error) {
	c, err := config.Load(o.config)
	if err != nil {
		return nil, nil, err
	}
	sources, err := policyload.Sources(*o.policies)
	if err != nil {
		return nil, nil, err
	}
	set, err := policyload.Compile(ctx, sources)
	if err != nil {
		return nil, nil, err
	}
	engine, err := policyload.NewEngine(set, c.StewardConfiguration, -1)
	if err != nil {
		return nil, nil, err
	}
	systemUsers := c.SystemUsers
	if systemUsers == nil {
		systemUsers = review.DefaultSystemUsers()
	}
	var overridden []string
	for _, namespaces := range c.Policies.Namespaces {
		overridden = append(overridden, namespaces.Names...)
	}
	options := admissionpolicy.Options{
		Sources: sources, Engine: engine, Overridden: overridden, Exemptions: c.Exemptions,
		SystemUsers: systemUsers, ExcludedNamespaces: o.excluded, Tolerations: c.Policies.Limits.Tolerations, Now: time.Now(),
	}
	exported, err := admissionpolicy.Export(options)
	if err != nil {
		return nil, nil, err
	}
	for i := range exported.Policies {
		objects = append(objects, exported.Policies[i], exported.Bindings[i])
	}
	mutating, bindings, notExported := admissionpolicy.ExportDefaults(options, c.Defaults)
	for i := range mutating {
		objects = append(objects, mutating[i], bindings[i])
	}
	return objects, slices.Concat(exported.Left, notExported, selected(c.Policies)), nil
}

// selected are the modes and parameters of namespaces that are selected by labels.
func selected(p v1alpha1.Policies) (left []admissionpolicy.Left) {
	for i, n := range p.Namespaces {
		if n.NamespaceSelector == nil {
			continue
		}
		codes := map[string]bool{}
		for code := range n.Modes {
			codes[code] = true
		}
		for code := range n.Parameters {
			codes[code] = true
		}
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			left = append(left, admissionpolicy.Left{Code: code, Reason: fmt.Sprintf("policies.namespaces[%d] selects namespaces by labels, which is not supported here: it is ignored", i)})
		}
	}
	return left
}

func writeExported(out io.Writer, objects []any, left []admissionpolicy.Left) error {
	for _, l := range left {
		printable.Printf(out, "# %s: %s\n", l.Code, l.Reason)
	}
	for _, object := range objects {
		if _, err := printable.Printf(out, "---\n"); err != nil {
			return err
		}
		if err := cmdutil.Print(out, "yaml", object); err != nil {
			return err
		}
	}
	return nil
}
