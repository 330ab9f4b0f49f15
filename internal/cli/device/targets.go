package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// targetHelp describes the arguments of commands about devices.
const targetHelp = `TARGET is a device, a pool or a driver (DRIVER/POOL/DEVICE, DRIVER/POOL, DRIVER, or the unique
end of a device's name), or what the devices belong to: node/NAME, driver/NAME, claim/NAME or
pod/NAME, also written TYPE NAME. --node-selector selects nodes by their labels.`

// targets are the flags and arguments that name devices.
type targets struct {
	read     clusterread.Source
	selector string
}

func (t *targets) addFlags(c *cobra.Command, files bool) {
	t.read.NoAttributes = true
	if t.read.Client.AddFlags(c); files {
		t.read.FilesFlag(c)
	}
	t.read.Complete(c)
	c.ValidArgsFunction = t.read.CompleteTargets
	c.Flags().StringVarP(&t.selector, "node-selector", "l", "", "instead of TARGET: the devices of the nodes with these labels, such as rack=r7")
}

// arguments splits the arguments of a command into names of targets and the number of
// others that follow them.
func (t *targets) arguments(args []string, others int) (names, rest []string, _ error) {
	if len(args) < others {
		return nil, nil, errors.New("an argument is missing")
	}
	names, rest = args[:len(args)-others], args[len(args)-others:]
	if t.selector != "" {
		if len(names) == 1 && taints.Kinds()[names[0]] == "node" {
			names = nil
		}
		if len(names) > 0 {
			return nil, nil, errors.New("name a TARGET or set --node-selector, not both")
		}
		return nil, rest, nil
	}
	if len(names) == 0 {
		return nil, nil, errors.New("name a TARGET, or set --node-selector")
	}
	return taints.Arguments(names), rest, nil
}

// resolve finds the targets of names among what was read.
func (t *targets) resolve(ctx context.Context, streams cmdutil.Streams, state *clusterread.State, scope taints.Scope, names []string) (found []taints.Target, err error) {
	if scope.Namespace, err = t.read.Client.Namespace(); err != nil {
		return nil, err
	}
	if t.selector != "" {
		nodes, err := t.read.NodeNames(ctx, streams, state, t.selector)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		return scope.OfNodes(nodes...)
	}
	for _, name := range names {
		of, err := scope.Resolve(name)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	return found, nil
}
