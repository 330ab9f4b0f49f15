package app

import "github.com/spf13/cobra"

func policyCommand(streams Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Work with the Rego policies",
		Long: `policy works with the policies as the webhook does: the library that ships with
dra-steward, and what a site adds.`,
	}
	c.AddCommand(policyExportCommand(streams))
	return c
}
