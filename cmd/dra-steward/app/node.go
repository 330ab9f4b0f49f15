package app

import (
	"github.com/spf13/cobra"
)

func nodeCommand(streams Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "node",
		Short: "Look at the devices of one node",
		Long: `node looks at what the kubelet of one node has handed out. It changes nothing there
and needs to read files that only root may read.`,

		SuggestionsMinimumDistance: 2,
		Args:                       noSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(nodeCheckCommand(streams), nodeWatchCommand(streams))
	return c
}
