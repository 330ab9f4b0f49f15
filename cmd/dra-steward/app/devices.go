package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// devicesOptions are the flags of devices.
type devicesOptions struct {
	from       []string
	kubeconfig string
	output     string
	timeout    time.Duration
}

func devicesCommand(streams Streams) *cobra.Command {
	o := devicesOptions{}
	c := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices with their taints and patched values, and where these come from",
		Long: `devices shows every device of the ResourceSlices with its taints, of the driver and of
DeviceTaintRules, and with what ResourceSlicePatches make of its attributes and
capacities: which patch decided, and what the driver published. It reads a cluster, or
with --from files without one.`,
		Example: `  dra-steward devices --kubeconfig ~/.kube/config
  kubectl get resourceslices,devicetaintrules -o yaml | dra-steward devices --from -
  dra-steward devices --from slices.yaml,patch.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return devices(c.Context(), streams, o) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.from, "from", nil, "read these files, folders or - for standard input instead of a cluster")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: the one that this runs in)")
	f.StringVarP(&o.output, "output", "o", "text", "how to write: text or json")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait until the cluster has been read")
	complete(c, "output", []string{"text", "json"})
	return c
}

func devices(ctx context.Context, streams Streams, o devicesOptions) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output %q: must be text or json", o.output)
	}
	var view *tracker.Snapshot
	var err error
	if o.from != nil {
		view, err = viewOfFiles(streams, o.from)
	} else {
		view, err = viewOfCluster(ctx, streams, o)
	}
	if err != nil {
		return err
	}
	if o.output == "json" {
		return writeDevicesJSON(streams.Out, view)
	}
	return writeDevicesText(streams.Out, view)
}

// viewOfFiles merges what files hold.
func viewOfFiles(streams Streams, files []string) (*tracker.Snapshot, error) {
	var objects []any
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(files...) {
		if err != nil {
			return nil, err
		}
		if !document.Ours() {
			continue
		}
		object, problems := manifest.Decode(document)
		for _, problem := range problems {
			fmt.Fprintf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	return tracker.Merge(objects...), nil
}

// viewOfCluster reads a cluster once. What cannot be read is a warning, but for
// ResourceSlices.
func viewOfCluster(ctx context.Context, streams Streams, o devicesOptions) (*tracker.Snapshot, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside of a cluster name a file, or use --from", err)
	}
	sources, err := tracker.NewSources(config, logr.Discard())
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	tracked := tracker.New(tracker.Options{Sources: sources})
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	failed := make(chan error, 1)
	running.Go(func() { failed <- tracked.Run(ctx) })
	select {
	case <-tracked.HasSyncedChecker().Done():
	case err := <-failed:
		return nil, errors.Join(err, ctx.Err(), tracked.Ready())
	}
	for _, condition := range tracked.Conditions() {
		if !condition.Available {
			fmt.Fprintf(streams.Err, "warning: %s\n", condition.Message)
		}
	}
	return tracked.Snapshot(), nil
}
