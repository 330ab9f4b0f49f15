package cmdutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DryRun is the value of --dry-run, as kubectl has it. Its zero value is none.
type DryRun string

// The values of --dry-run other than none: client sends no write, server sends writes that the
// API server checks and does not store.
const (
	dryRunNone          = "none"
	DryRunClient DryRun = "client"
	DryRunServer DryRun = "server"
)

func dryRuns() []string { return []string{dryRunNone, string(DryRunClient), string(DryRunServer)} }

// AddFlag adds --dry-run to a command. The flag without a value is client, as in kubectl.
func (d *DryRun) AddFlag(c *cobra.Command, client string) {
	c.Flags().Var(d, "dry-run", "client: "+client+"; server: the API server also checks the writes, without storing them; none")
	c.Flags().Lookup("dry-run").NoOptDefVal = string(DryRunClient)
	Complete(c, "dry-run", dryRuns())
}

func (d *DryRun) String() string {
	if *d == "" {
		return dryRunNone
	}
	return string(*d)
}

// Type is how help calls the value.
func (d *DryRun) Type() string { return "string" }

// Set reads the value of the flag.
func (d *DryRun) Set(text string) error {
	if !slices.Contains(dryRuns(), text) {
		return fmt.Errorf("must be one of %s", strings.Join(dryRuns(), ", "))
	}
	*d = DryRun(strings.TrimPrefix(text, dryRunNone))
	return nil
}

// Write is the field DryRun of the options of a write; a client dry run does not write.
func (d DryRun) Write() []string {
	if d == DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Suffix ends the line about a write, as in kubectl.
func (d DryRun) Suffix() string {
	switch d {
	case DryRunClient:
		return " (dry run)"
	case DryRunServer:
		return " (server dry run)"
	}
	return ""
}
