// Package node has the commands that run on a node.
package node

import (
	"github.com/dra-steward/dra-steward/internal/nodeagent"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/spf13/cobra"
)

func Command(streams cmdutil.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "node",
		Short: "Look at the devices of one node",
		Long: `node looks at what the kubelet of one node has handed out. It changes nothing there
and needs to read files that only root may read.`,

		SuggestionsMinimumDistance: 2,
		Args:                       cmdutil.NoSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(nodeCheckCommand(streams), nodeagent.WatchCommand(streams))
	return c
}
