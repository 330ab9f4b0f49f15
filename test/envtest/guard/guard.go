// Package guard puts dra-steward in front of the API server of a test cluster: the
// chart as it ships, rendered with the values of a test, and the program that the
// chart's Deployment runs, in this process and with the Deployment's arguments.
//
// Only where things are differs from an installation: the webhook configurations
// name an address on loopback instead of a Service, and the certificate is made
// here.
package guard

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/webhook"
)

// Options describe an installation. The zero value is the chart's defaults.
type Options struct {
	// Values are the chart's values, as in a values file; certificates excepted.
	Values map[string]any
	// Log receives what dra-steward logs. Nil writes it to a file of the cluster's
	// folder.
	Log io.Writer
}

// A Guard is dra-steward in front of an API server.
type Guard struct {
	address, metrics string
	// mounted is the folder of the configuration, version that of the cluster.
	mounted, version string
	authority        []byte
	prepared         prepared
	stop             context.CancelFunc
	done             chan int
	log              io.Closer
}

// Start installs or upgrades dra-steward and returns when the API server sends its
// requests to it and applies the chart's admission policies. ctx bounds the start only.
func Start(ctx context.Context, cluster *envtest.Cluster, o Options) (*Guard, error) {
	d, err := Deploy(ctx, cluster, o)
	if err != nil {
		return nil, err
	}
	g, err := launch(d.prepared, o.Log)
	if err != nil {
		return nil, err
	}
	g.version = cluster.Version()
	if err := g.connect(ctx, d.client, d.prepared); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

// connect waits for the program, installs the webhook configurations and waits for the
// first requests.
func (g *Guard) connect(ctx context.Context, c client.Client, p prepared) error {
	if err := p.ready(ctx, g.done); err != nil {
		return fmt.Errorf("dra-steward did not become ready: %w", err)
	}
	if err := p.applyWebhooks(ctx, c); err != nil {
		return err
	}
	if err := p.called(ctx, c); err != nil {
		return fmt.Errorf("the API server does not call dra-steward: %w", err)
	}
	return nil
}

// URL is where dra-steward answers admission requests: path is /mutate or /validate.
func (g *Guard) URL(path string) string { return "https://" + g.address + path }

// Metrics returns what the program answers at /metrics.
func (g *Guard) Metrics(ctx context.Context) (string, error) {
	text, err := get(ctx, "http://"+g.metrics+"/metrics")
	return string(text), err
}

// MetricsAddress is where it serves its metrics, host:port.
func (g *Guard) MetricsAddress() string { return g.metrics }

// Another starts one more replica, which is ready but which the API server does not call.
func (g *Guard) Another(ctx context.Context, log io.Writer) (*Guard, error) {
	p := g.prepared
	p.args = slices.Clone(p.args)
	if err := p.place(); err != nil {
		return nil, err
	}
	other, err := launch(p, log)
	if err != nil {
		return nil, err
	}
	return other, p.ready(ctx, other.done)
}

// Authority is the certificate authority that its certificate can be checked with,
// in PEM.
func (g *Guard) Authority() []byte { return g.authority }

// Stop ends the program as the kubelet would, gracefully. The webhook
// configurations stay, so that the API server gets no answer from then on. A program
// that did not end well is an error; a second call is none.
func (g *Guard) Stop() error {
	g.stop()
	code, first := <-g.done
	if g.log != nil {
		g.log.Close()
	}
	if first && code != cmdutil.ExitClean {
		return fmt.Errorf("dra-steward ended with exit code %d", code)
	}
	return nil
}

// launch runs the program.
func launch(p prepared, log io.Writer) (*Guard, error) {
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{prepared: p, address: p.address, metrics: p.metrics, mounted: p.mounted, authority: p.authority, stop: stop, done: make(chan int, 1)}
	if log == nil {
		file, err := os.Create(filepath.Join(p.dir, "dra-steward.log"))
		if err != nil {
			stop()
			return nil, err
		}
		log, g.log = file, file
	}
	go func() {
		defer close(g.done)
		g.done <- cli.Run(ctx, p.args, cmdutil.Streams{Out: log, Err: log})
	}()
	return g, nil
}

// prepare makes the certificate, renders the chart and takes from it what the
// program is given.
func prepare(cluster *envtest.Cluster, o Options) (prepared, error) {
	dir, err := os.MkdirTemp(cluster.Dir(), "guard-")
	if err != nil {
		return prepared{}, err
	}
	certificates := filepath.Join(dir, "tls")
	if err := webhook.SelfSigned(certificates, []string{loopback}); err != nil {
		return prepared{}, err
	}
	authority, err := os.ReadFile(filepath.Join(certificates, webhook.AuthorityFile))
	if err != nil {
		return prepared{}, err
	}
	objects, err := chart.Render(with(o.Values, authority), chart.Options{KubeVersion: cluster.Version()})
	if err != nil {
		return prepared{}, err
	}
	p := prepared{dir: dir, objects: objects, authority: authority}
	kubeconfig, err := p.account(cluster)
	if err != nil {
		return prepared{}, err
	}
	return p, p.configure(certificates, kubeconfig)
}

// with adds to values what every installation needs.
func with(values map[string]any, authority []byte) map[string]any {
	all := map[string]any{}
	for key, value := range values {
		all[key] = value
	}
	all["certificates"] = map[string]any{"mode": "provided", "existingSecret": "dra-steward-tls", "caBundle": string(authority)}
	return all
}
