// Package node has the commands that run on a node.
package node

import (
	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/nodeagent"
)

// Command returns the command node.
func Command(streams cmdutil.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "node",
		Short: "Inspect the devices of one node",
		Long: `node inspects the devices that the kubelet of one node has allocated to containers. It
changes nothing, and reads files that only root can read.`,

		SuggestionsMinimumDistance: 2,
		Args:                       cmdutil.NoSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(nodeCheckCommand(streams), nodeHoldingsCommand(streams), nodeagent.WatchCommand(streams))
	return c
}
