package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// Sources are the flags of the commands that read who holds which device of a node.
type Sources struct {
	nodeName, kubeconfig string
	socket, kubeletRoot  string
	attributes           []string
	networkPools         bool
}

// AddFlags adds them to a command.
func (s *Sources) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.nodeName, "node-name", os.Getenv("NODE_NAME"), "name of this node (default: $NODE_NAME)")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig file (default: the cluster of this pod)")
	f.StringVar(&s.socket, "pod-resources-socket", podresources.DefaultSocket, "socket of the kubelet's PodResources API; mount its folder")
	f.StringVar(&s.kubeletRoot, "kubelet-root", "", "folder with the kubelet's "+checkpoint.DRAFile+"; empty: do not read it")
	f.StringSliceVar(&s.attributes, "attributes", nil, fmt.Sprintf("attributes of devices to show, such as uuid,resource.kubernetes.io/pciBusID; at most %d", maxAttributes))
	f.BoolVar(&s.networkPools, "network-pools", false, "also show the drivers' taints on devices of network pools; reads the slices of all network pools of the cluster")
}

// NodeName returns the name of the node.
func (s Sources) NodeName() string { return s.nodeName }

// AttributeNames returns the names of --attributes.
func (s Sources) AttributeNames() []string { return s.attributes }

func (s Sources) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file", err)
	}
	return config, nil
}

// options returns what an Agent needs to read the sources.
func (s Sources) options(log logr.Logger) (Options, error) {
	if s.nodeName == "" {
		return Options{}, errors.New("--node-name, or NODE_NAME in the environment, must be the name of this node")
	}
	if err := CheckAttributes(s.attributes); err != nil {
		return Options{}, fmt.Errorf("--attributes: %w", err)
	}
	config, err := s.config()
	if err != nil {
		return Options{}, err
	}
	nodeView, err := NewNodeView(config, s.nodeName, log)
	if err != nil {
		return Options{}, err
	}
	if s.networkPools {
		if err := nodeView.ReadNetworkPools(); err != nil {
			return Options{}, err
		}
	}
	o := Options{NodeView: nodeView, Kubelet: podresources.New(podresources.Options{Socket: s.socket}), Attributes: s.attributes, Log: log}
	if s.kubeletRoot != "" {
		o.Checkpoint = filepath.Join(s.kubeletRoot, checkpoint.DRAFile)
		o.Registry = filepath.Join(s.kubeletRoot, "plugins_registry")
	}
	return o, nil
}

// Observe reads the holdings of the node once, with the taints and attributes of the devices,
// and without findings.
func (s Sources) Observe(ctx context.Context) (*Observation, error) {
	options, err := s.options(logr.Discard())
	if err != nil {
		return nil, err
	}
	defer options.Kubelet.Close()
	if err := options.NodeView.allowed(ctx); err != nil {
		return nil, fmt.Errorf("node %s: %w", s.nodeName, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() { defer close(done); _ = options.NodeView.Run(ctx) }()
	if err := options.NodeView.wait(ctx); err != nil {
		if reason := options.NodeView.Ready(); reason != nil {
			err = reason
		}
		return nil, fmt.Errorf("node %s: %w", s.nodeName, err)
	}
	agent := NewAgent(options)
	in, err := agent.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.nodeName, err)
	}
	o := &Observation{At: time.Now(), Stale: podresources.Missing(in) != ""}
	agent.fill(o, in)
	return o, nil
}

// runtimeTimeout bounds the question to a container runtime, which answers from memory.
const runtimeTimeout = 5 * time.Second

// WithRuntime asks the container runtime at a CRI socket whether it applies CDI ids, and
// where it reads specifications, and returns the options with its answer. Directories that
// the options do not have are left out: they cannot be read. containerd tells both; what
// a runtime does not tell stays as it is.
func WithRuntime(ctx context.Context, socket string, o cdi.Options) (cdi.Options, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return o, fmt.Errorf("container runtime at %s: %w", socket, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	status, err := cri.NewRuntimeServiceClient(conn).Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return o, fmt.Errorf("container runtime at %s: %w", socket, err)
	}
	var config struct {
		EnableCDI   *bool    `json:"enableCDI"`
		CDISpecDirs []string `json:"cdiSpecDirs"`
	}
	text := status.GetInfo()["config"]
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return o, fmt.Errorf("configuration of the container runtime at %s: %w", socket, err)
	}
	o.Disabled = config.EnableCDI != nil && !*config.EnableCDI
	ours := o.Dirs
	if len(ours) == 0 {
		ours = cdi.DefaultDirs()
	}
	seen := slices.DeleteFunc(config.CDISpecDirs, func(dir string) bool { return !slices.Contains(ours, dir) })
	if len(seen) > 0 {
		o.Dirs = seen
	}
	return o, nil
}
