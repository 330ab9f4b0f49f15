package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/spf13/cobra"
)

func versionCommand(streams cmdutil.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of dra-steward and of the Kubernetes API it was built with",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("this binary carries no build information")
			}
			_, err := fmt.Fprintf(streams.Out, "dra-steward %s\nresource.k8s.io types of k8s.io/api %s\n%s\n",
				info.Main.Version, moduleVersion(info, "k8s.io/api"), info.GoVersion)
			return err
		},
	}
}

func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}
