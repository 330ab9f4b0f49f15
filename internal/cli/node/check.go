package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

const nodeCheckHelp = `check reports whether the container runtime of this node would resolve and apply CDI
device ids: those given as ID, or all that the kubelet has handed to containers. It needs
no cluster.

A running container does not notice that the specification of its device was removed: its
next start fails with CreateContainerError, and the kubelet does not ask the driver again
while the sandbox of the pod exists. check finds that in advance. Its findings and their
remedies:

%s
The ids in use are read from the kubelet's checkpoints: dra_manager_state (DRA) and
device-plugins/kubelet_internal_checkpoint (device plugins). check reports an absent
checkpoint. A checkpoint that cannot be read, has an unknown version or a wrong checksum
is an error.

A specification that does not load is printed, but is not a finding while its devices are
unused. Exit codes: 0 every id would be applied, 1 some would not, 2 the command failed.`

type nodeCheckOptions struct {
	hostRoot    string
	visible     []string
	dirs        []string
	maxVersion  string
	kubeletRoot string
	pluginsDir  string
	criSocket   string
	output      string
}

func nodeCheckCommand(streams cmdutil.Streams) *cobra.Command {
	var o nodeCheckOptions
	var reasons strings.Builder
	for _, reason := range cdi.Reasons() {
		fmt.Fprintf(&reasons, "  %-23s %s\n", reason.ID, reason.Doc)
	}
	c := &cobra.Command{
		Use:   "check [ID ...]",
		Short: "Check once, without a cluster, that CDI device ids can be resolved",
		Long:  fmt.Sprintf(nodeCheckHelp, reasons.String()),
		Example: `  dra-steward node check                        # all ids in use on this node
  dra-steward node check vendor.example/gpu=0   # one
  dra-steward node check --host-root /host -o json
  dra-steward node check --host-root /host --host-visible /dev vendor.example/gpu=0  # in the pod of the agent
  dra-steward node check --max-cdi-version 0.6.0  # for an older runtime`,
		RunE: func(c *cobra.Command, ids []string) error { return nodeCheck(c.Context(), streams, o, ids) },
	}
	f := c.Flags()
	f.StringVar(&o.hostRoot, "host-root", "/", "mount point of the file system of the node; all other paths are below it")
	f.StringSliceVar(&o.visible, "host-visible", nil, "folders of the node that are mounted below --host-root (default: all); device nodes, mounts and hooks elsewhere are not checked")
	f.StringSliceVar(&o.dirs, "cdi-dir", nil, "CDI directories of the container runtime, in increasing precedence (default /etc/cdi,/var/run/cdi)")
	f.StringVar(&o.maxVersion, "max-cdi-version", "", "newest cdiVersion that the container runtime supports (default "+cdi.Newest()+", the newest that dra-steward supports)")
	f.StringVar(&o.kubeletRoot, "kubelet-root", "/var/lib/kubelet", "root directory of the kubelet")
	f.StringVar(&o.pluginsDir, "device-plugins-dir", checkpoint.DevicePluginsDir, "folder with the kubelet's checkpoint of device plugins; empty: ignore device plugins")
	f.StringVar(&o.criSocket, "cri-socket", "", "CRI socket of the container runtime, to detect whether it applies CDI ids and where it reads specifications; empty: do not ask")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats("text"), ", "))
	cmdutil.Complete(c, "output", cmdutil.OutputFormats("text"))
	return c
}

func nodeCheck(ctx context.Context, streams cmdutil.Streams, o nodeCheckOptions, ids []string) error {
	if err := cmdutil.CheckOutput(o.output, "text"); err != nil {
		return err
	}
	options := cdi.Options{HostRoot: o.hostRoot, Visible: o.visible, Dirs: o.dirs, MaxVersion: o.maxVersion}
	if o.criSocket != "" {
		var err error
		if options, err = nodeagent.WithRuntime(ctx, o.criSocket, options); err != nil {
			return fmt.Errorf("--cri-socket: %w", err)
		}
	}
	registry, err := cdi.Read(options)
	if err != nil {
		return err
	}
	var report nodeReport
	if len(ids) > 0 {
		for _, id := range ids {
			report.use(id, nil)
		}
	} else if err := report.readCheckpoints(o); err != nil {
		return err
	}
	report.check(registry)
	if o.output == "text" {
		err = report.print(streams.Out)
	} else {
		err = cmdutil.Print(streams.Out, o.output, report)
	}
	if err == nil && report.Failed > 0 {
		err = cmdutil.ErrFindings
	}
	return err
}

// readCheckpoints adds the ids that the kubelet has handed out.
func (r *nodeReport) readCheckpoints(o nodeCheckOptions) error {
	claims := filepath.Join(o.kubeletRoot, checkpoint.DRAFile)
	if err := r.source("dra", o.hostRoot, claims, r.readDRA); err != nil {
		return err
	}
	if o.pluginsDir == "" {
		r.Sources = append(r.Sources, nodeSource{Name: "device-plugins", State: "off"})
	} else {
		plugins := filepath.Join(o.pluginsDir, checkpoint.DevicePluginsFile)
		if err := r.source("device-plugins", o.hostRoot, plugins, r.readPlugins); err != nil {
			return err
		}
	}
	for _, source := range r.Sources {
		if source.State == "up" {
			return nil
		}
	}
	return fmt.Errorf("no kubelet checkpoint at %s; name ids, or set --host-root and --kubelet-root to the files of the kubelet", filepath.Join(o.hostRoot, claims))
}

// source reads one checkpoint. Only its absence is no error.
func (r *nodeReport) source(name, hostRoot, path string, read func(path string) error) error {
	state := "up"
	real, err := cdi.HostPath(hostRoot, path)
	if err == nil {
		err = read(real)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		state = "absent"
	case err != nil:
		return err
	}
	r.Sources = append(r.Sources, nodeSource{Name: name, Path: path, State: state})
	return nil
}

func (r *nodeReport) readDRA(path string) error {
	claims, err := checkpoint.ReadDRA(path)
	for _, claim := range claims {
		for _, device := range claim.Devices {
			for _, id := range device.CDIIDs {
				r.use(id, &nodeHolder{
					Source: "dra", Namespace: claim.Namespace, Claim: claim.Name, PodUIDs: claim.PodUIDs,
					Driver: device.Driver, Pool: device.Pool, Device: device.Device, Requests: device.Requests,
				})
			}
		}
	}
	return err
}

func (r *nodeReport) readPlugins(path string) error {
	allocations, err := checkpoint.ReadDevicePlugins(path)
	for _, a := range allocations {
		for _, id := range a.CDIIDs {
			r.use(id, &nodeHolder{
				Source: "device-plugins", PodUIDs: []podUID{a.PodUID}, Container: a.Container, Resource: a.Resource, Devices: a.DeviceIDs,
			})
		}
	}
	return err
}
