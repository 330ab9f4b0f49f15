package deployed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// A Deployment is an installation whose replicas the caller runs.
type Deployment struct {
	Client   client.Client
	Prepared Prepared
	replicas []Replica
}

// A Replica is what one process of a Deployment is started with. It has the same addresses at each
// start.
type Replica struct {
	// Args are those of the program.
	Args []string
	// Address is where it answers admission requests, host:port.
	Address string
	health  string
	metrics string
}

// Deploy installs the chart but for the webhook configurations, and returns when the API server
// applies the admission policies.
func Deploy(ctx context.Context, cluster *envtest.Cluster, values map[string]any) (*Deployment, error) {
	p, err := Prepare(cluster, values)
	if err != nil {
		return nil, err
	}
	config := cluster.Config()
	config.WarningHandler = rest.NoWarnings{} // what is written here is of no interest
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	if err := p.applyRights(ctx, c); err != nil {
		return nil, err
	}
	if err := PoliciesInForce(ctx, c, filepath.Base(p.Dir)); err != nil {
		return nil, fmt.Errorf("the API server does not apply the admission policies: %w", err)
	}
	return &Deployment{Client: c, Prepared: p}, nil
}

// Replica returns one more replica.
func (d *Deployment) Replica() (Replica, error) {
	p := d.Prepared
	p.Args = slices.Clone(p.Args)
	if err := p.Place(); err != nil {
		return Replica{}, err
	}
	r := Replica{Args: p.Args, Address: p.Address, health: p.Health, metrics: p.Metrics}
	d.replicas = append(d.replicas, r)
	return r, nil
}

// Ready reports whether a replica says that it is, as its readiness probe asks.
func (r Replica) Ready(ctx context.Context) bool {
	_, err := Get(ctx, "http://"+r.health+"/readyz")
	return err == nil
}

// Expose makes the API server send its requests to an address, in front of the replicas, and
// returns when one of these has answered the first ones.
func (d *Deployment) Expose(ctx context.Context, address string) error {
	p := d.Prepared
	p.Address = address
	if err := p.ApplyWebhooks(ctx, d.Client); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		var errs []error
		for _, r := range d.replicas {
			p.Metrics = r.metrics
			err := p.probe(ctx, d.Client)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return fmt.Errorf("the API server does not call dra-steward: %w", errors.Join(errs...))
	})
}
