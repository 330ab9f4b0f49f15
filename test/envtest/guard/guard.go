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
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/internal/deployed"
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
	prepared         deployed.Prepared
	stop             context.CancelFunc
	done             chan int
	log              io.Closer
}

// Start installs or upgrades dra-steward and returns when the API server sends its
// requests to it and applies the chart's admission policies. ctx bounds the start only.
func Start(ctx context.Context, cluster *envtest.Cluster, o Options) (*Guard, error) {
	d, err := deployed.Deploy(ctx, cluster, o.Values)
	if err != nil {
		return nil, err
	}
	g, err := launch(d.Prepared, o.Log)
	if err != nil {
		return nil, err
	}
	g.version = cluster.Version()
	if err := g.connect(ctx, d.Client, d.Prepared); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

// connect waits for the program, installs the webhook configurations and waits for the
// first requests.
func (g *Guard) connect(ctx context.Context, c client.Client, p deployed.Prepared) error {
	if err := p.Ready(ctx, g.done); err != nil {
		return fmt.Errorf("dra-steward did not become ready: %w", err)
	}
	if err := p.ApplyWebhooks(ctx, c); err != nil {
		return err
	}
	if err := p.Called(ctx, c); err != nil {
		return fmt.Errorf("the API server does not call dra-steward: %w", err)
	}
	return nil
}

// URL is where dra-steward answers admission requests: path is /mutate or /validate.
func (g *Guard) URL(path string) string { return "https://" + g.address + path }

// Metrics returns what the program answers at /metrics.
func (g *Guard) Metrics(ctx context.Context) (string, error) {
	text, err := deployed.Get(ctx, "http://"+g.metrics+"/metrics")
	return string(text), err
}

// MetricsAddress is where it serves its metrics, host:port.
func (g *Guard) MetricsAddress() string { return g.metrics }

// Another starts one more replica, which is ready but which the API server does not call.
func (g *Guard) Another(ctx context.Context, log io.Writer) (*Guard, error) {
	p := g.prepared
	p.Args = slices.Clone(p.Args)
	if err := p.Place(); err != nil {
		return nil, err
	}
	other, err := launch(p, log)
	if err != nil {
		return nil, err
	}
	return other, p.Ready(ctx, other.done)
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
func launch(p deployed.Prepared, log io.Writer) (*Guard, error) {
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{prepared: p, address: p.Address, metrics: p.Metrics, mounted: p.Mounted, authority: p.Authority, stop: stop, done: make(chan int, 1)}
	if log == nil {
		file, err := os.Create(filepath.Join(p.Dir, "dra-steward.log"))
		if err != nil {
			stop()
			return nil, err
		}
		log, g.log = file, file
	}
	go func() {
		defer close(g.done)
		g.done <- cli.Run(ctx, p.Args, cmdutil.Streams{Out: log, Err: log})
	}()
	return g, nil
}
