package app

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/rulebook"
)

func explainCommand(streams Streams) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "explain [RULE]",
		Short: "Explain a rule or default with examples, or list all",
		Long: `explain prints what a rule or default does, why it exists, what the API server does
about it, and examples with their outcome. RULE is the ID that stands in every
message of dra-steward. Without RULE it lists all of them.`,
		Example: `  dra-steward explain
  dra-steward explain taint-time-keep`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeRules(args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			book, err := rulebook.Open()
			if err != nil {
				return err
			}
			switch {
			case all && len(args) > 0:
				return errors.New("--all takes no RULE")
			case all:
				_, err = fmt.Fprint(streams.Out, book.Markdown())
				return err
			case len(args) == 0:
				return list(streams, book)
			default:
				return explain(streams, book, args[0])
			}
		},
	}
	c.Flags().BoolVar(&all, "all", false, "print the whole rule book as Markdown")
	return c
}

func explain(streams Streams, book rulebook.Book, id string) error {
	entry, err := book.Find(id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(streams.Out, entry.Markdown())
	return err
}

func list(streams Streams, book rulebook.Book) error {
	table := tabwriter.NewWriter(streams.Out, 0, 0, 2, ' ', 0)
	for _, entry := range book {
		fmt.Fprintf(table, "%s\t%s\t%s\n", entry.ID, entry.What, entry.Summary())
	}
	return table.Flush()
}

func completeRules(args []string) []string {
	book, err := rulebook.Open()
	if err != nil || len(args) > 0 {
		return nil
	}
	var ids []string
	for _, entry := range book {
		ids = append(ids, cobra.CompletionWithDesc(entry.ID, entry.Summary()))
	}
	return ids
}
