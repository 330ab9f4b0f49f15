// Package nodes takes the place of kubelets, so that pods on nodes that exist only
// in the API live and die as real ones do.
//
// For each named node it keeps a Node that is Ready and a Lease that is fresh.
// A pod that is bound to one of these nodes becomes Running and Ready, but only
// when each of its ResourceClaims is allocated and reserved for it, which a
// kubelet requires too. A pod that is being deleted ends after its grace period,
// scaled by [Options.Grace], and is then removed.
//
// What a kubelet does beyond that has no counterpart: containers do not run, so
// they neither finish nor fail, there are no probes, no evictions under pressure
// and no calls of DRA drivers.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	defaultHeartbeat = 10 * time.Second
	defaultWorkers   = 8
	userAgent        = "dra-steward-nodes"
)

// Options describe the nodes. Only Names is needed.
type Options struct {
	// Names of the nodes.
	Names []string
	// Labels of every node, besides the hostname, which each has.
	Labels map[string]string
	// Capacity of every node; nil means 64 CPUs, 256Gi of memory and 110 pods.
	Capacity corev1.ResourceList
	// Heartbeat is the time between two renewals of a node's lease; 0 means 10 s.
	Heartbeat time.Duration
	// Grace is the part of its grace period that a deleted pod lives on: 0 ends
	// it at once, 1 after its whole grace period.
	Grace float64
	// Except reports which pods on these nodes another program runs; nil means no pod.
	Except func(*corev1.Pod) bool
	// Workers is the number of pods that are worked on at a time; 0 means 8.
	Workers int
}

func (o Options) withDefaults() Options {
	if o.Capacity == nil {
		o.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	return o
}

// Nodes are running stand-ins.
type Nodes struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start creates the nodes, or takes over existing ones of these names, and
// returns when all are Ready. The stand-ins run until Stop is called; ctx is for
// the start only.
func Start(ctx context.Context, config *rest.Config, o Options) (*Nodes, error) {
	if len(o.Names) == 0 {
		return nil, errors.New("nodes: Options.Names is empty")
	}
	o = o.withDefaults()
	config = rest.AddUserAgent(rest.CopyConfig(config), userAgent)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	h := heart{options: o, client: client, kubelet: version.GitVersion}
	for _, name := range o.Names {
		if err := h.create(ctx, name); err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n := &Nodes{cancel: cancel}
	n.running.Go(func() {
		wait.JitterUntilWithContext(running, h.beat, o.Heartbeat, 0, true)
	})
	p := newPods(client, o, sets.New(o.Names...))
	n.running.Go(func() { p.run(running) })
	if err := p.waitForSync(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// Stop ends the stand-ins and waits for them. The nodes stay, and are soon not
// Ready if a controller-manager runs.
func (n *Nodes) Stop() {
	n.cancel()
	n.running.Wait()
}
