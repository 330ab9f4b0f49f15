package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/serving/daemon"
	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

const nodeWatchHelp = `watch runs on every node, as a DaemonSet. Its metrics show which container holds which
device, the taints of the device, whether they are tolerated, and these findings:

%s
Each finding is also an event on the pod, or on the node if the pod is gone. watch deletes and evicts nothing.

It reads the kubelet's PodResources API and, with --kubelet-root, the kubelet's
checkpoint of prepared claims, which has data that the API lacks. The checkpoint of device
plugins is in the folder of the socket at which plugins register; it is read only with
--device-plugins-dir. From the API server, watch reads the pods and slices of this node,
the claims of its pods by name, and the DeviceTaintRules; with --network-pools also the slices
of the cluster that name no node.

With --serve-socket it serves the PodResources API, with the kubelet's faults corrected,
to other agents.`

type nodeWatchOptions struct {
	Sources
	cdi                           cdi.Options
	criSocket, plugins            string
	serveSocket                   string
	serveDevices                  map[string]string
	holderLabels                  []string
	interval                      time.Duration
	events                        bool
	healthAddress, metricsAddress string
	metricsSecure                 bool
	logLevel, logFormat           string
}

func WatchCommand(streams cmdutil.Streams) *cobra.Command {
	var o nodeWatchOptions
	var kinds strings.Builder
	for _, kind := range Kinds() {
		fmt.Fprintf(&kinds, "  %-23s %s\n", kind.ID, kind.Doc)
	}
	c := &cobra.Command{
		Use:     "watch",
		Short:   "Watch the devices of one node: metrics, findings, events",
		Long:    fmt.Sprintf(nodeWatchHelp, kinds.String()),
		Example: `  dra-steward node watch --node-name "$NODE_NAME" --host-root /host --kubelet-root /var/lib/kubelet`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return nodeWatch(c.Context(), streams, o) },
	}
	f := c.Flags()
	o.AddFlags(f)
	f.StringVar(&o.cdi.HostRoot, "host-root", "/", "mount point of the file system of the node, for CDI specifications and the files that they name")
	f.StringSliceVar(&o.cdi.Visible, "host-visible", nil, "folders of the node that are mounted below --host-root (default: all); device nodes, mounts and hooks elsewhere are not checked")
	f.StringSliceVar(&o.cdi.Dirs, "cdi-dir", nil, "CDI directories of the container runtime, in increasing precedence (default "+strings.Join(cdi.DefaultDirs(), ",")+")")
	f.StringVar(&o.cdi.MaxVersion, "max-cdi-version", "", "newest cdiVersion that the container runtime supports (default "+cdi.Newest()+")")
	f.StringVar(&o.criSocket, "cri-socket", "", "CRI socket of the container runtime, to detect whether it applies CDI ids and where it reads specifications; access to it controls the node; empty: do not ask")
	f.StringVar(&o.plugins, "device-plugins-dir", "", "folder with the kubelet's checkpoint of device plugins; empty: ignore device plugins")
	f.StringVar(&o.serveSocket, "serve-socket", "", "socket for the corrected PodResources API; empty: none")
	f.StringToStringVar(&o.serveDevices, "serve-devices", nil, "list devices of claims in the corrected PodResources API as those of a device plugin, too: RESOURCE=ATTRIBUTE, such as nvidia.com/gpu=gpu.nvidia.com/uuid")
	f.StringSliceVar(&o.holderLabels, "holder-labels", nil, "more labels of dra_steward_node_device_holder_info, of "+strings.Join(HolderLabels(), ", ")+"; the label "+labelResource+" adds the devices of device plugins")
	cmdutil.DurationVar(f, &o.interval, "interval", DefaultInterval, "interval of reconciles; changes also trigger one")
	f.BoolVar(&o.events, "events", true, "emit an event for each finding, on the pod or on the node")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address for /healthz and /readyz (HTTP); empty: off")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address for /metrics (HTTP); empty: off")
	daemon.SecureFlag(f, &o.metricsSecure)
	f.StringVar(&o.logLevel, "log-level", "info", "minimum log level: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "format of the log on standard error: json or text")
	cmdutil.Complete(c, "holder-labels", HolderLabels())
	return c
}

func nodeWatch(ctx context.Context, streams cmdutil.Streams, o nodeWatchOptions) error {
	agent, registry, err := o.agent(streams)
	if err != nil {
		return err
	}
	defer agent.Kubelet.Close()
	at, err := daemon.ListenAll(map[string]string{"--health-address": o.healthAddress, "--metrics-address": o.metricsAddress})
	if err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	metrics, handler, err := daemon.SecureMetrics(o.metricsSecure, config, at["--metrics-address"], daemon.MetricsHandler(registry), agent.Log)
	if err != nil {
		return fmt.Errorf("--metrics-secure: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return agent.NodeView.Run(ctx) })
	group.Go(func() error { return agent.Run(ctx) })
	group.Go(func() error { return daemon.ServeHTTP(ctx, at["--health-address"], worldHealth(agent.NodeView)) })
	group.Go(func() error { return daemon.ServeHTTP(ctx, metrics, handler) })
	if o.serveSocket != "" {
		group.Go(func() error { return servePodResources(ctx, o.serveSocket, o.serveDevices, agent) })
	}
	agent.Log.Info("watching", "version", version.Get().Version, "commit", version.Get().Commit, "node", o.nodeName)
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// agent makes the agent and all that it needs.
func (o nodeWatchOptions) agent(streams cmdutil.Streams) (*Agent, *prometheus.Registry, error) {
	log, err := daemon.NewLogger(streams.Err, streams.SetLogger, o.logLevel, o.logFormat)
	if err != nil {
		return nil, nil, err
	}
	if err := CheckHolderLabels(o.holderLabels); err != nil {
		return nil, nil, fmt.Errorf("--holder-labels: %w", err)
	}
	if err := checkServedDevices(o.serveDevices); err != nil {
		return nil, nil, fmt.Errorf("--serve-devices: %w", err)
	}
	if _, err := cdi.Read(o.cdi); err != nil {
		return nil, nil, err
	}
	options, err := o.options(log)
	if err != nil {
		return nil, nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := daemon.RegisterBuildInfo(registry); err != nil {
		return nil, nil, err
	}
	options.Metrics, err = NewMetrics(registry, MetricsOptions{Calls: options.Kubelet.Calls, HolderLabels: o.holderLabels, Attributes: o.attributes})
	if err != nil {
		return nil, nil, err
	}
	options.CDI, options.Runtime, options.Interval = o.cdi, o.criSocket, o.interval
	if o.plugins != "" {
		options.Plugins = filepath.Join(o.plugins, checkpoint.DevicePluginsFile)
	}
	if o.events {
		broadcaster := record.NewBroadcaster()
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: options.NodeView.client.CoreV1().Events("")})
		options.Node = o.nodeName
		options.Events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: EventComponent, Host: o.nodeName})
	}
	return NewAgent(options), registry, nil
}

func worldHealth(nodeView *NodeView) http.Handler {
	ready := func(*http.Request) error { return nodeView.Ready() }
	mux := http.NewServeMux()
	for path, check := range map[string]healthz.Checker{"/healthz": healthz.Ping, "/readyz": ready} {
		mux.Handle("GET "+path, http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{"node": check}}))
	}
	return mux
}
