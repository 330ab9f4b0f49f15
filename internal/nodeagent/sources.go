package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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
	world, err := NewNodeView(config, s.nodeName, log)
	if err != nil {
		return Options{}, err
	}
	if s.networkPools {
		if err := world.ReadNetworkPools(); err != nil {
			return Options{}, err
		}
	}
	o := Options{NodeView: world, Kubelet: podresources.New(podresources.Options{Socket: s.socket}), Attributes: s.attributes, Log: log}
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
