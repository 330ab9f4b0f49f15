package whatif

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// targetHelp describes the arguments of commands about devices.
const targetHelp = `TARGET is a device, a pool or a driver (DRIVER/POOL/DEVICE, DRIVER/POOL, DRIVER, or the unique
end of a device's name), or what the devices belong to: node/NAME, driver/NAME, claim/NAME or
pod/NAME, also written TYPE NAME. --node-selector selects nodes by their labels.`

func taintCommand(streams cmdutil.Streams) *cobra.Command {
	o := newOptions()
	c := &cobra.Command{
		Use:   "taint {TARGET... KEY[=VALUE]:EFFECT | -f FILE}",
		Short: "Show where pods that a taint evicts land",
		Long: `taint shows the pods that DeviceTaintRules with the effect NoExecute evict, when they leave by
their tolerations, and where they land again. With NoSchedule no pods leave; the answer is about
the pods that wait. -f reads the rules from a file.

` + targetHelp,
		Example: `  dra-steward whatif taint gpu.example.com/node-1/gpu-0 example.com/broken:NoExecute
  dra-steward whatif taint -l rack=r7 example.com/firmware:NoExecute -o wide
  dra-steward whatif taint -f rule.yaml --from-files cluster/`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), streams, func(l *clusterread.Snapshot, cluster placement.Cluster) (placement.Change, error) {
				if err := whole(l); err != nil {
					return placement.Change{}, err
				}
				rules, err := o.rules(streams, l, args)
				return cluster.With(rules...), err
			})
		},
	}
	o.addFlags(c)
	o.selectorFlag(c)
	o.fileFlag(c, "DeviceTaintRules")
	return c
}

// rules are those of the arguments or of the file.
func (o *options) rules(streams cmdutil.Streams, l *clusterread.Snapshot, args []string) (rules []any, _ error) {
	if (o.file == "") == (len(args) == 0) {
		return nil, errors.New("name the taint: TARGET KEY[=VALUE]:EFFECT, or -f FILE; see 'dra-steward whatif taint --help'")
	}
	if o.file != "" {
		return ofFile[*resourceapi.DeviceTaintRule](streams, o.file, "DeviceTaintRule")
	}
	last := len(args) - 1
	taint, err := taints.ParseTaint(args[last], false)
	if err != nil {
		return nil, err
	}
	found, err := o.targets(l, args[:last])
	for _, target := range found {
		rules = append(rules, taints.Intent{Target: target, Taint: taint}.Rule())
	}
	return rules, err
}

// ofFile reads the objects of a kind.
func ofFile[T manifest.Object](streams cmdutil.Streams, file, kind string) (all []any, _ error) {
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(file) {
		if err != nil {
			return nil, err
		}
		if document.Kind != kind {
			continue
		}
		object, problems := manifest.Decode(document)
		typed, is := object.(T)
		if !is || object == nil {
			return nil, fmt.Errorf("%s: %s: %v", file, kind, problems)
		}
		newer.DecodeAny(document.Raw, object)
		all = append(all, typed)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: contains no %s", file, kind)
	}
	return all, nil
}

// whole returns an error if pods that a change evicts may be missing from what was read.
func whole(l *clusterread.Snapshot) error {
	if l.NoPods || l.PartialClaims {
		return errors.New("which pods leave is unknown: you are not allowed to list the pods and claims of all namespaces")
	}
	return nil
}

func drainCommand(streams cmdutil.Streams) *cobra.Command {
	o := newOptions()
	c := &cobra.Command{
		Use:   "drain TARGET...",
		Short: "Show where pods that a drain evicts land",
		Long: `drain shows the pods that a DeviceDrain of the devices evicts, and where they land again while
the devices are cordoned. PodDisruptionBudgets delay pods; "dra-steward drain --dry-run" shows
them.

` + targetHelp,
		Example: `  dra-steward whatif drain node/node-1
  dra-steward whatif drain gpu.example.com/node-1/gpu-0 -o name`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), streams, func(l *clusterread.Snapshot, cluster placement.Cluster) (placement.Change, error) {
				return o.drain(l, cluster, args)
			})
		},
	}
	o.addFlags(c)
	o.selectorFlag(c)
	return c
}

func (o *options) drain(l *clusterread.Snapshot, cluster placement.Cluster, args []string) (placement.Change, error) {
	if err := whole(l); err != nil {
		return placement.Change{}, err
	}
	found, err := o.targets(l, args)
	if err != nil {
		return placement.Change{}, err
	}
	return cluster.Drained(taints.Cordons(found), taints.In(found)), nil
}

func nodeCommand(streams cmdutil.Streams) *cobra.Command {
	o := newOptions()
	c := &cobra.Command{
		Use:     "node NAME...",
		Short:   "Show where the pods of removed nodes land",
		Long:    `node shows where the pods of nodes land when the nodes and their devices are removed.`,
		Example: `  dra-steward whatif node node-1 node-2`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), streams, func(l *clusterread.Snapshot, cluster placement.Cluster) (placement.Change, error) {
				if err := whole(l); err != nil {
					return placement.Change{}, err
				}
				names, err := nodeNames(l, args)
				if err != nil {
					return placement.Change{}, err
				}
				return cluster.WithoutNodes(names...), nil
			})
		},
	}
	o.addFlags(c)
	c.ValidArgsFunction = o.CompleteKind("node")
	return c
}
