package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// connectionFlags are the flags of kubectl that many commands have and few people need.
func connectionFlags(c *cobra.Command) (all []*pflag.Flag) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cmdutil.ConnectionFlag] != nil && !f.Hidden {
			all = append(all, f)
		}
	})
	return all
}

// usageWithoutConnection prints the usage of a command with a reference to the connection
// flags instead of these flags.
func usageWithoutConnection(usual func(*cobra.Command) error) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		left := connectionFlags(c)
		for _, f := range left {
			f.Hidden = true
		}
		err := usual(c)
		for _, f := range left {
			f.Hidden = false
		}
		if err == nil && len(left) > 0 {
			_, err = printable.Printf(c.OutOrStderr(), "\nUse \"%s options\" for the flags of kubectl that this command has, too.\n", c.Root().CommandPath())
		}
		return err
	}
}

// optionsCommand lists the connection flags, as kubectl's command of this name does.
func optionsCommand(streams cmdutil.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the kubectl flags that all commands for a cluster accept",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var client cmdutil.Client
			all := &cobra.Command{}
			client.AddFlags(all)
			return printable.Page(streams.Out, "All commands that connect to a cluster have these flags:\n\n"+all.Flags().FlagUsages())
		},
	}
}
