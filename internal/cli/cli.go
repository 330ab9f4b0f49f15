// Package cli is the command line of dra-steward. [Run] is the whole program but
// for the process: arguments and streams in, exit code out, so that tests and
// other programs run what people run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/internal/cli/capacity"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cli/config"
	"github.com/dra-steward/dra-steward/internal/cli/console"
	"github.com/dra-steward/dra-steward/internal/cli/device"
	"github.com/dra-steward/dra-steward/internal/cli/drain"
	"github.com/dra-steward/dra-steward/internal/cli/lint"
	"github.com/dra-steward/dra-steward/internal/cli/node"
	"github.com/dra-steward/dra-steward/internal/cli/policy"
	"github.com/dra-steward/dra-steward/internal/cli/report"
	"github.com/dra-steward/dra-steward/internal/cli/roll"
	"github.com/dra-steward/dra-steward/internal/cli/uninstall"
	"github.com/dra-steward/dra-steward/internal/cli/whatif"
	"github.com/dra-steward/dra-steward/internal/manager"
	"github.com/dra-steward/dra-steward/internal/server"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Run runs the program with args until it is done or ctx ends, and returns its exit
// code.
func Run(ctx context.Context, args []string, streams cmdutil.Streams) int {
	streams, flush := streams.Printable()
	defer flush()
	streams.In = cmdutil.Interruptible(ctx, streams.In)
	root := Command(streams)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return cmdutil.ExitClean
	case errors.Is(err, cmdutil.ErrFindings), errors.Is(err, cmdutil.ErrInterrupted):
		return cmdutil.ExitFindings
	case errors.Is(err, cmdutil.ErrUnknown):
		return cmdutil.ExitUnknown
	default:
		_ = printable.Page(streams.Err, "dra-steward: "+streams.Called(printable.Error(cmdutil.Explain(err)))+"\n") // there is no other place to report to
		return cmdutil.ExitFailed
	}
}

// Names of the program as kubectl finds it: the command "kubectl dra-steward", and what
// completes it.
const (
	pluginName   = "kubectl-dra_steward"
	completeName = "kubectl_complete-dra_steward"
)

// RunAs is Run for a program that was called by the name argv[0]: help then shows the name
// that people typed, and kubectl gets completions.
func RunAs(ctx context.Context, argv []string, streams cmdutil.Streams) int {
	if len(argv) == 0 {
		return Run(ctx, nil, streams)
	}
	args := argv[1:]
	switch strings.TrimSuffix(filepath.Base(argv[0]), ".exe") {
	case pluginName:
		streams.Name = "kubectl dra-steward"
	case completeName:
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return Run(ctx, args, streams)
}

// called puts the name of a kubectl plugin into help.
func called(c *cobra.Command, streams cmdutil.Streams) {
	c.Long, c.Example = streams.Called(c.Long), streams.Called(c.Example)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = streams.Called(f.Usage) })
	for _, sub := range c.Commands() {
		called(sub, streams)
	}
}

// explainArguments makes the commands answer wrong arguments with their usage, where cobra
// answers with a number of arguments.
func explainArguments(c *cobra.Command) {
	if check := c.Args; check != nil && !c.HasSubCommands() {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) == nil {
				return nil
			}
			problem := "arguments are missing"
			if len(args) > 0 {
				problem = fmt.Sprintf("the arguments %q do not fit", args)
			}
			return fmt.Errorf("%s: usage: %s; see '%s --help'", problem, c.UseLine(), c.CommandPath())
		}
	}
	for _, sub := range c.Commands() {
		explainArguments(sub)
	}
}

// Command returns the program as a command with all subcommands, for tools that describe it.
func Command(streams cmdutil.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "dra-steward",
		Short: "Protect the devices of a Kubernetes cluster",
		Long: `dra-steward protects the devices of a Kubernetes cluster with Dynamic Resource Allocation
(DRA). It checks ResourceSlices, ResourceClaims, ResourceClaimTemplates, DeviceClasses and
DeviceTaintRules by the same rules in a cluster (serve) and in files without one (lint). It
shows the devices of a cluster and why a claim has none (devices, why, console), predicts what
a change affects (impact, whatif), and takes devices out of use and puts them back (taint,
drain, roll).

Exit codes: 0 no findings, 1 findings, 2 the command failed, 3 nothing was checked.`,
		Example: `  dra-steward lint manifests/                 # check files
  kubectl get resourceslices -o yaml | dra-steward lint -
  dra-steward explain request-tolerations-max # explain a finding
  dra-steward serve --cert-dir /tls           # the admission webhook`,
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
		Args:                       cmdutil.NoSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(server.Command(streams), manager.Command(streams), lint.Command(streams), lint.ExplainCommand(streams),
		device.DevicesCommand(streams), device.ImpactCommand(streams), device.TaintCommand(streams), device.UntaintCommand(streams),
		device.HistoryCommand(streams), device.WhyCommand(streams), capacity.CapacityCommand(streams), capacity.FitCommand(streams),
		config.Command(streams), policy.Command(streams), report.AuditCommand(streams),
		node.Command(streams), metricsCommand(streams), uninstall.Command(streams), versionCommand(streams))
	root.AddCommand(console.Command(streams), drain.Command(streams), drain.AcknowledgeCommand(streams), roll.Command(streams),
		whatif.Command(streams), report.ReportCommand(streams), optionsCommand(streams))
	explainArguments(root)
	if streams.Name != "" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: streams.Name}
		called(root, streams)
	}
	root.SetUsageFunc(usageWithoutConnection(root.UsageFunc()))
	return root
}
