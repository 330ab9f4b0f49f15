package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

const (
	// startTimeout is generous, for machines that also compile.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
	// etcdStopTimeout is longer than the 7 s that etcd waits for requests before it ends them.
	etcdStopTimeout = 12 * time.Second
	// startAttempts covers a port that something else took just before us.
	startAttempts = 3
	// logLines is how much of a log an error repeats.
	logLines = 20
)

// startAPIServer starts etcd and the API server and waits until it is ready.
func (c *Cluster) startAPIServer(ctx context.Context, o Options) error {
	if err := c.startControlPlane(ctx, o); err != nil {
		return err
	}
	admin, err := c.User("admin", "system:masters")
	if err != nil {
		return err
	}
	c.admin = admin
	if err := writeKubeconfig(c.Kubeconfig(), admin); err != nil {
		return err
	}
	if err := c.waitReady(ctx); err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, c.Log(assets.APIServer), proc.Tail(c.Log(assets.APIServer), logLines))
	}
	return nil
}

// startControlPlane starts both processes, again with other ports if one could
// not listen. A cancelled ctx takes effect when a start has ended.
func (c *Cluster) startControlPlane(ctx context.Context, o Options) error {
	for attempt := 1; ; attempt++ {
		plane, err := c.newControlPlane(o)
		if err != nil {
			return err
		}
		if err = plane.Start(); err == nil {
			c.plane = plane
			c.cleanup = append(c.cleanup, c.stopControlPlane)
			return nil
		}
		portTaken := strings.Contains(c.logTails(), "address already in use")
		err = fmt.Errorf("%w; the ends of the logs:\n%s", err, c.logTails())
		if stopErr := plane.Stop(); stopErr != nil || !portTaken || attempt == startAttempts || ctx.Err() != nil {
			return errors.Join(ctx.Err(), err, stopErr)
		}
	}
}

// stopControlPlane stops the API server, then etcd. etcd 3.7 at times does not end after its API server
// has gone. It is killed then, without an error: its data are those of a cluster that ends.
func (c *Cluster) stopControlPlane() error {
	if err := c.plane.APIServer.Stop(); err != nil {
		return errors.Join(fmt.Errorf("%w; the ends of the logs:\n%s", err, c.logTails()), c.plane.Etcd.Stop())
	}
	if err := c.plane.Etcd.Stop(); err != nil && !strings.HasPrefix(err.Error(), "timeout waiting for process") {
		return err
	}
	return nil
}

func (c *Cluster) logTails() string {
	return proc.Tail(c.Log(assets.Etcd), logLines) + "\n" + proc.Tail(c.Log(assets.APIServer), logLines)
}

func (c *Cluster) newControlPlane(o Options) (*ctrlenvtest.ControlPlane, error) {
	etcd := &ctrlenvtest.Etcd{Path: c.set.Load().Path(assets.Etcd), StartTimeout: startTimeout, StopTimeout: etcdStopTimeout}
	api := &ctrlenvtest.APIServer{Path: c.set.Load().Path(assets.APIServer), StartTimeout: startTimeout, StopTimeout: stopTimeout}
	var err error
	if etcd.DataDir, err = os.MkdirTemp(c.dir.path, "etcd-"); err != nil {
		return nil, err
	}
	if api.CertDir, err = os.MkdirTemp(c.dir.path, "apiserver-"); err != nil {
		return nil, err
	}
	for name, flags := range c.apiServerFlags(o) {
		api.Configure().Set(name, flags...)
	}
	if o.AuditPolicy != "" {
		if err := os.WriteFile(c.auditPolicy(), []byte(o.AuditPolicy), 0o600); err != nil {
			return nil, err
		}
	}
	etcdLog, err := c.createLog(assets.Etcd)
	if err != nil {
		return nil, err
	}
	apiLog, err := c.createLog(assets.APIServer)
	if err != nil {
		return nil, err
	}
	etcd.Out, etcd.Err = etcdLog, etcdLog
	api.Out, api.Err = apiLog, apiLog
	return &ctrlenvtest.ControlPlane{Etcd: etcd, APIServer: api, KubectlPath: c.set.Load().Path(assets.Kubectl)}, nil
}

func (c *Cluster) auditPolicy() string {
	return filepath.Join(c.dir.path, "audit-policy.yaml")
}

func (c *Cluster) apiServerFlags(o Options) map[string][]string {
	flags := map[string][]string{
		"authorization-mode": {"RBAC"},
		// No other address than loopback, so that it starts without a network,
		// too; the Service "kubernetes" would lead nowhere and has no endpoints.
		"advertise-address":        {"127.0.0.1"},
		"endpoint-reconciler-type": {"none"},
	}
	if o.AuditPolicy != "" {
		flags["audit-policy-file"] = []string{c.auditPolicy()}
		flags["audit-log-path"] = []string{c.AuditLog()}
	}
	setSwitches(flags, "feature-gates", o.FeatureGates)
	setSwitches(flags, "runtime-config", o.RuntimeConfig)
	for name, values := range o.APIServerArgs {
		flags[name] = values
	}
	return flags
}

// setSwitches sets a flag of the form a=true,b=false, if there is any switch.
func setSwitches(flags map[string][]string, name string, switches map[string]bool) {
	if len(switches) == 0 {
		return
	}
	pairs := make([]string, 0, len(switches))
	for key, on := range switches {
		pairs = append(pairs, key+"="+strconv.FormatBool(on))
	}
	slices.Sort(pairs)
	flags[name] = []string{strings.Join(pairs, ",")}
}

// createLog opens a component's log and closes it when the cluster stops.
func (c *Cluster) createLog(component string) (*os.File, error) {
	file, err := os.OpenFile(c.Log(component), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	c.cleanup = append(c.cleanup, file.Close)
	return file, nil
}

// Etcd returns the address of etcd, which serves it without TLS, also as JSON below /v3:
// what is watched there goes on while the API server is restarted.
func (c *Cluster) Etcd() string { return c.plane.Etcd.URL.String() }

// RestartAPIServer stops the API server and starts it again at the same address, with the
// same certificates; meanwhile it refuses connections. If watches keep it from ending in
// time it is killed.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	stopped := c.plane.APIServer.Stop()
	var err error
	for range startAttempts { // the port of one that was killed is free a little later
		if err = c.plane.APIServer.Start(); err == nil {
			return c.waitReady(ctx)
		}
	}
	return fmt.Errorf("starting the API server again: %w", errors.Join(err, stopped))
}

// waitReady waits for /readyz and for the namespaces that everybody expects.
func (c *Cluster) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = checkReady(ctx, client)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the API server does not become ready: %w", errors.Join(err, last))
	}
	return nil
}

func checkReady(ctx context.Context, client kubernetes.Interface) error {
	if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, corev1.NamespaceNodeLease} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// Config returns the administrator's client configuration: a copy, with client
// side rate limits that tests do not reach.
func (c *Cluster) Config() *rest.Config {
	return rest.CopyConfig(c.admin)
}
