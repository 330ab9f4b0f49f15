// Package app is the command line of dra-steward. [Run] is the whole program but
// for the process: arguments and streams in, exit code out, so that tests and
// other programs run what people run.
package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Run runs the program with args until it is done or ctx ends, and returns its exit
// code.
func Run(ctx context.Context, args []string, streams Streams) int {
	root := rootCommand(streams)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return ExitClean
	case errors.Is(err, errFindings):
		return ExitFindings
	default:
		fmt.Fprintf(streams.Err, "dra-steward: %v\n", err)
		return ExitFailed
	}
}

func rootCommand(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "dra-steward",
		Short: "Guard the devices of a Kubernetes cluster",
		Long: `dra-steward judges what is written to resource.k8s.io, the API of Dynamic Resource
Allocation (DRA): ResourceSlices, ResourceClaims, ResourceClaimTemplates,
DeviceClasses and DeviceTaintRules. In a cluster it does so as an admission webhook
(serve), on files without a cluster (lint), with the same rules.

Exit codes: 0 clean, 1 something was found, 2 could not run.`,
		Example: `  dra-steward lint manifests/                 # judge files
  kubectl get resourceslices -o yaml | dra-steward lint -
  dra-steward explain request-tolerations-max # why is that wrong?
  dra-steward serve --cert-dir /tls           # the admission webhook`,
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
		Args:                       noSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
	})
	root.AddCommand(serveCommand(streams), controllerCommand(streams), lintCommand(streams), explainCommand(streams),
		devicesCommand(streams), impactCommand(streams), taintCommand(streams), untaintCommand(streams), whyCommand(streams), configCommand(streams), policyCommand(streams), auditCommand(streams),
		nodeCommand(streams), metricsCommand(streams), uninstallCommand(streams), versionCommand(streams))
	root.AddCommand(drainCommand(streams), reportCommand(streams))
	return root
}
