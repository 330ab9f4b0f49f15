package capacity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// drainedTargets returns the devices of --if-drained: those of a DeviceDrain, or of a target.
func (o *fitOptions) drainedTargets(ctx context.Context, streams cmdutil.Streams, l *clusterread.Snapshot, namespace string) ([]taints.Target, error) {
	kind, name, _ := strings.Cut(o.drained, "/")
	switch {
	case o.drained == "":
		return nil, nil
	case !taints.IsDrain(kind):
		return l.Scope(namespace).Resolve(o.drained)
	}
	d, err := o.readDrain(ctx, streams, l, name)
	if err != nil {
		return nil, err
	}
	found := drain.Resolve(d, drain.Published(l.View, l.Holders()), l.View.PublishedSlices())
	if found.Reason != "" {
		return nil, fmt.Errorf("devicedrain %s: %s", name, found.Message)
	}
	targets := make([]taints.Target, 0, len(found.Names))
	for _, device := range found.Names {
		targets = append(targets, taints.Target(device))
	}
	return targets, nil
}

// readDrain reads a DeviceDrain of the cluster, or of the files.
func (o *fitOptions) readDrain(ctx context.Context, streams cmdutil.Streams, l *clusterread.Snapshot, name string) (*v1alpha1.DeviceDrain, error) {
	if o.Files != nil {
		i := slices.IndexFunc(l.Drains, func(d *v1alpha1.DeviceDrain) bool { return d.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("devicedrain %q is in none of the files", name)
		}
		return l.Drains[i], nil
	}
	config, err := o.Client.Config(streams)
	if err != nil {
		return nil, err
	}
	client, err := ownclient.NewDrainClient(config)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name)
}
