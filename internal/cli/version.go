package cli

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// A versionInfo is what version prints.
type versionInfo struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Kubernetes string `json:"kubernetesAPI"`
	GoVersion  string `json:"goVersion"`
}

func versionCommand(streams cmdutil.Streams) *cobra.Command {
	output := ""
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of dra-steward and of the Kubernetes API it was built with",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := cmdutil.CheckOutput(output, "text"); err != nil {
				return err
			}
			own := version.Get()
			v := versionInfo{cmp.Or(own.Version, "unknown"), own.Commit, moduleVersion("k8s.io/api"), own.GoVersion}
			if output != "text" {
				return cmdutil.Print(streams.Out, output, v)
			}
			_, err := printable.Printf(streams.Out, "dra-steward %s\ncommit %s\nresource.k8s.io types of k8s.io/api %s\n%s\n", v.Version, cmp.Or(v.Commit, "unknown"), v.Kubernetes, v.GoVersion)
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats("text"), ", "))
	cmdutil.Complete(c, "output", cmdutil.OutputFormats("text"))
	return c
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "unknown"
}
