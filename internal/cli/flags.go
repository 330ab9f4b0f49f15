package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// wrongFlag explains an error about the flags of a command: what selects nodes, if the flag is one that
// people try for that, or else the flag with the nearest name.
func wrongFlag(c *cobra.Command, err error) error {
	_, name, unknown := strings.Cut(err.Error(), "unknown flag: --")
	if unknown {
		if hint := meantFlag(c, name); hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
	}
	return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
}

// meantFlag names the flag to write instead of one that a command does not have.
func meantFlag(c *cobra.Command, name string) string {
	labels := c.Flags().Lookup("node-selector") != nil
	switch {
	case slices.Contains([]string{"selector", "label", "labels"}, name) && labels:
		return fmt.Sprintf("for the labels of nodes, use '%s -l KEY=VALUE'", c.CommandPath())
	case name == "selector" || name == "label" || name == "labels":
		return fmt.Sprintf("%s selects no nodes by labels; '%s devices -l KEY=VALUE' does", c.Name(), c.Root().CommandPath())
	case slices.Contains([]string{"node", "nodes"}, name) && labels && c.Flags().Lookup("nodes") == nil:
		return fmt.Sprintf("for the devices of a node, use '%s node/NAME'", c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := manifest.Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean --%s?", near)
	}
	return ""
}
