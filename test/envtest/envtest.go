// Package envtest runs a real Kubernetes control plane on the loopback
// interface, for tests and demonstrations.
//
// [Start] starts etcd and kube-apiserver, and on request the controller-manager
// and the scheduler; all of them are the released code of one Kubernetes version
// (see package assets, which builds and caches the binaries). There are no
// kubelets: [Options.Nodes] names nodes that a stand-in keeps Ready, and on
// which pods run and end as they would with a kubelet (see package nodes).
//
// The components run under their real identities and with RBAC, not as
// administrators. Two things differ from a cluster made by an installer: the
// ServiceAccount admission plugin is off, so that a pod needs no service account,
// and etcd does not sync its files.
//
// Everything a [Cluster] writes is in one folder in the cache, and [Cluster.Stop]
// removes it. If the process dies before it can call Stop, a watchdog ends the
// control plane and removes the folder.
//
// A package's tests share one cluster through [Main]:
//
//	var cluster *envtest.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(envtest.Main(m, envtest.Options{Scheduler: true}, func(c *envtest.Cluster) { cluster = c }))
//	}
package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

// Options describe a control plane. The zero value is etcd and the API server
// of the default Kubernetes version.
type Options struct {
	// Kubernetes is a version such as 1.37.0 or a minor such as 1.37; see
	// assets.Options.
	Kubernetes string
	// ControllerManager and Scheduler also start these components.
	ControllerManager, Scheduler bool
	// Kubectl provides kubectl for Cluster.Kubectl.
	Kubectl bool
	// Nodes are the names of the nodes that the stand-in for kubelets runs.
	Nodes []string
	// APIServerArgs, ControllerManagerArgs and SchedulerArgs are flags without
	// leading dashes. A flag given here replaces the default of that name.
	APIServerArgs, ControllerManagerArgs, SchedulerArgs map[string][]string
	// SchedulerProgram is the path of a program that takes the place of kube-scheduler:
	// one that is built from it, with plugins of its own.
	SchedulerProgram string
	// SchedulerConfiguration is the text of a KubeSchedulerConfiguration, to which the
	// connection is added.
	SchedulerConfiguration string
	// FeatureGates are set for all components.
	FeatureGates map[string]bool
	// RuntimeConfig switches API groups and versions on or off, for example
	// "resource.k8s.io/v1beta2".
	RuntimeConfig map[string]bool
	// DeviceTaintRules makes the API server serve them, in every version that the minor
	// has, and switches on what the components need to follow them. What FeatureGates and
	// RuntimeConfig say goes before it.
	DeviceTaintRules bool
	// AuditPolicy is the text of an audit policy; if set, the API server writes
	// the file Cluster.AuditLog.
	AuditPolicy string
	// Dir is the folder in which the cluster's own folder is made; empty means
	// assets.DefaultCache().
	Dir string
	// Output receives what is found, built and started, line by line. Nil
	// discards it.
	Output io.Writer
}

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	set     atomic.Pointer[assets.Set]
	dir     *runDir
	plane   *ctrlenvtest.ControlPlane
	admin   *rest.Config
	options Options
	cleanup []func() error // in the order of what it undoes

	users sync.Mutex // guards plane.AddUser

	componentsLock sync.Mutex          // guards running and cleanup
	running        map[string]*process // binary -> its latest process

	stop sync.Once
	err  error // of the stop
}

// Start builds what is missing, starts the control plane and returns when the
// API server is ready, the namespaces default and kube-system exist, the
// requested components answer their health checks and all nodes are Ready.
// If it fails or ctx is cancelled, everything it has started is stopped and
// removed first.
//
// The cluster outlives ctx, but not the call of Stop.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Output == nil {
		o.Output = io.Discard
	}
	set, err := assets.Get(ctx, assets.Options{Kubernetes: o.Kubernetes, Binaries: o.binaries(), Output: o.Output})
	if err != nil {
		return nil, fmt.Errorf("control plane binaries: %w", err)
	}
	if o.DeviceTaintRules {
		o = o.withTaintRules(minorOf(set.Kubernetes))
	}
	c := &Cluster{options: o, running: map[string]*process{}}
	c.set.Store(set)
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Kubernetes %s: %w", set.Kubernetes, err), c.Stop())
	}
	return c, nil
}

func (o Options) binaries() []string {
	names := []string{assets.Etcd, assets.APIServer}
	if o.Kubectl {
		names = append(names, assets.Kubectl)
	}
	if o.ControllerManager {
		names = append(names, assets.ControllerManager)
	}
	if o.Scheduler {
		names = append(names, assets.Scheduler)
	}
	return names
}

// start runs the phases in order; each leaves its undoing in c.cleanup.
func (c *Cluster) start(ctx context.Context, o Options) error {
	begin := time.Now()
	phases := []func(context.Context, Options) error{
		c.makeDir, c.startAPIServer, c.startComponents, c.startNodes,
	}
	for _, phase := range phases {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := phase(ctx, o); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Output, "envtest: Kubernetes %s is ready at %s after %s\n",
		c.set.Load().Kubernetes, c.admin.Host, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

func (c *Cluster) makeDir(_ context.Context, o Options) (err error) {
	c.dir, err = newRunDir(o.Dir)
	if err != nil {
		return err
	}
	c.cleanup = append(c.cleanup, c.dir.remove)
	return nil
}

func (c *Cluster) startNodes(ctx context.Context, o Options) error {
	if len(o.Nodes) == 0 {
		return nil
	}
	kubelets, err := nodes.Start(ctx, c.Config(), nodes.Options{Names: o.Nodes})
	if err != nil {
		return fmt.Errorf("stand-in for kubelets: %w", err)
	}
	c.cleanup = append(c.cleanup, func() error {
		kubelets.Stop()
		return nil
	})
	return nil
}

// Stop stops everything and removes the cluster's folder. Calling it again
// returns the first call's result.
func (c *Cluster) Stop() error {
	c.stop.Do(func() {
		c.componentsLock.Lock()
		defer c.componentsLock.Unlock()
		var errs []error
		for i := len(c.cleanup) - 1; i >= 0; i-- {
			errs = append(errs, c.cleanup[i]())
		}
		if err := errors.Join(errs...); err != nil {
			c.err = fmt.Errorf("stopping Kubernetes %s: %w", c.set.Load().Kubernetes, err)
		}
	})
	return c.err
}

// Version returns the Kubernetes version in full, for example 1.37.0.
func (c *Cluster) Version() string {
	return c.set.Load().Kubernetes
}

// Dir returns the cluster's folder, which is removed by Stop. Files put there
// are removed with it.
func (c *Cluster) Dir() string {
	return c.dir.path
}

// Log returns the path of the log of a component, named as its binary.
func (c *Cluster) Log(component string) string {
	return filepath.Join(c.dir.path, component+".log")
}

// AuditLog returns the path of the audit log, which exists if
// Options.AuditPolicy is set: one JSON object per line.
func (c *Cluster) AuditLog() string {
	return filepath.Join(c.dir.path, "audit.log")
}
