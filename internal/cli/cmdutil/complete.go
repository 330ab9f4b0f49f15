package cmdutil

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// Complete offers the values of a flag to the shell.
func Complete(c *cobra.Command, flag string, values []string) {
	CompleteWith(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteWith registers a completion. The error can only say that there is no such
// flag, which the completion test would show.
func CompleteWith(c *cobra.Command, flag string, values cobra.CompletionFunc) {
	_ = c.RegisterFlagCompletionFunc(flag, values)
}

// CompleteRule completes the ID of one rule, default or policy.
func CompleteRule(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return CompleteRules(nil), cobra.ShellCompDirectiveNoFileComp
}

// CompleteGates offers the next gate of a list: A=true,B=…
func CompleteGates(_ *cobra.Command, _ []string, typed string) (values []string, _ cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	for _, gate := range apiserver.Gates() {
		values = append(values, before+string(gate)+"=true", before+string(gate)+"=false")
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// CompletePolicies offers the codes of policies to the shell.
func CompletePolicies(c *cobra.Command, paths []string, args []string) (codes []string) {
	set, err := ParsePolicies(c, paths)
	if err != nil || len(args) > 0 {
		return nil
	}
	for _, p := range set.Policies() {
		codes = append(codes, cobra.CompletionWithDesc(p.Code, p.Title))
	}
	return codes
}

// CompleteRules returns the completions of the first argument if it is the ID of a rule.
func CompleteRules(args []string) []string {
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

// parsed are the policies that paths name, without their tests run.
func ParsePolicies(c *cobra.Command, paths []string) (*policy.Set, error) {
	sources, err := policyload.Sources(paths)
	if err != nil {
		return nil, err
	}
	return policy.Parse(c.Context(), sources...)
}
