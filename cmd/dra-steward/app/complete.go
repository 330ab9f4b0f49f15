package app

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// complete offers the values of a flag to the shell.
func complete(c *cobra.Command, flag string, values []string) {
	completeWith(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeWith registers a completion. The error can only say that there is no such
// flag, which the completion test would show.
func completeWith(c *cobra.Command, flag string, values cobra.CompletionFunc) {
	_ = c.RegisterFlagCompletionFunc(flag, values)
}

func completeRule(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeRules(nil), cobra.ShellCompDirectiveNoFileComp
}

// completeGates offers the next gate of a list: A=true,B=…
func completeGates(_ *cobra.Command, _ []string, typed string) (values []string, _ cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	for _, gate := range apiserver.Gates() {
		values = append(values, before+string(gate)+"=true", before+string(gate)+"=false")
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}
