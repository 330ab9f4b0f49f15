package lint

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// ExplainCommand returns the command explain.
func ExplainCommand(streams cmdutil.Streams) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "explain [RULE]",
		Short: "Explain a rule, default or policy, or list all",
		Long: `explain prints the documentation of a rule or default: its effect, its reason, the behavior
of the API server, and examples with their outcome. For a policy of the library it prints
the same as "policy explain", which also knows the policies of a site. RULE is the ID in
every message of dra-steward. Without RULE it lists all of them.`,
		Example: `  dra-steward explain
  dra-steward explain taint-time-keep
  dra-steward explain DRA-TOL-001`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return append(cmdutil.CompleteRules(args), cmdutil.CompletePolicies(c, nil, args)...), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			book, err := rulebook.Open()
			if err != nil {
				return err
			}
			policies, err := cmdutil.ParsePolicies(c, nil)
			if err != nil {
				return err
			}
			switch {
			case all && len(args) > 0:
				return errors.New("--all takes no RULE")
			case all:
				err = printable.Page(streams.Out, book.Markdown())
				return err
			case len(args) == 0:
				return list(streams, book, policies)
			default:
				return explain(streams, book, policies, args[0])
			}
		},
	}
	c.Flags().BoolVar(&all, "all", false, "print all rules as Markdown")
	return c
}

func explain(streams cmdutil.Streams, book rulebook.Book, policies *policy.Set, id string) error {
	if p, found := policies.Policy(id); found {
		err := printable.Page(streams.Out, p.Markdown())
		return err
	}
	if ruleid.IsPolicy(id) {
		return fmt.Errorf("the library has no policy %q; \"dra-steward policy explain %s --policies FOLDER\" explains those of a site", id, id)
	}
	entry, err := book.Find(id)
	if err != nil {
		return err
	}
	if err = printable.Page(streams.Out, entry.Markdown()); err != nil || !strings.HasPrefix(id, "parameters-") {
		return err
	}
	return schemas(streams)
}

// schemas lists the schemas that come with dra-steward.
func schemas(streams cmdutil.Streams) error {
	library, err := parameters.Default()
	if err != nil {
		return err
	}
	table := printable.NewTable(streams.Out, 2)
	printable.Printf(table, "\nDRIVER\tPARAMETERS\tFROM THE CODE OF\n")
	for _, s := range library.Schemas() {
		printable.Printf(table, "%s\t%s\t%s\n", s.Driver, s.Kind, s.Version)
	}
	return table.Flush()
}

func list(streams cmdutil.Streams, book rulebook.Book, policies *policy.Set) error {
	table := printable.NewTable(streams.Out, 2)
	for _, entry := range book {
		printable.Printf(table, "%s\t%s\t%s\n", entry.ID, entry.What, entry.Summary())
	}
	for _, p := range policies.Policies() {
		printable.Printf(table, "%s\tpolicy\t%s\n", p.Code, p.Title)
	}
	return table.Flush()
}
