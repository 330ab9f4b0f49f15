// Package device has the commands about devices: devices, why, impact, taint and untaint.
package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/spf13/cobra"
)

func DevicesCommand(streams cmdutil.Streams) *cobra.Command {
	o, output := clusterread.SnapshotOptions{Claims: true}, ""
	c := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices with their taints, patched values and claims, and their origin",
		Long: `devices shows every device of the ResourceSlices with its taints (from the driver and from
DeviceTaintRules), its patched attributes and capacities (with the winning patch and the
published value), and the claims that it is allocated to. It reads the devices that your
permissions let you read, or files (--from-files).`,
		Example: `  dra-steward devices -o wide
  kubectl get resourceslices,devicetaintrules -o yaml | dra-steward devices --from-files -
  dra-steward devices --from-files slices.yaml,patch.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			write, ok := deviceWriters()[output]
			if !ok {
				return fmt.Errorf("--output %q: must be one of %s", output, strings.Join(outputs(), ", "))
			}
			found, err := o.Read(c.Context(), streams)
			if err != nil {
				return err
			}
			return write(streams.Out, reportDevices(found))
		},
	}
	o.AddFlags(c)
	c.Flags().StringVarP(&output, "output", "o", "text", "output format: "+strings.Join(outputs(), ", "))
	cmdutil.Complete(c, "output", outputs())
	return c
}

// outputs are the values of --output.
func outputs() (names []string) {
	for name := range deviceWriters() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
