package envtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// Upgrade replaces one process after the other by that of another version, as an installer
// does: etcd, if the other version has another one, the API server, then the controller-manager and
// the scheduler, if Options asked for them. Their flags stay, and so does what is stored. After each,
// it calls upgraded, unless that is nil, with the name of the binary.
func (c *Cluster) Upgrade(ctx context.Context, kubernetes string, upgraded func(binary string)) error {
	set, err := assets.Get(ctx, assets.Options{Kubernetes: kubernetes, Binaries: c.options.binaries(), Output: c.options.Output})
	if err != nil {
		return fmt.Errorf("control plane binaries: %w", err)
	}
	c.set.Store(set)
	steps := []step{{assets.Etcd, c.upgradeEtcd}, {assets.APIServer, c.upgradeAPIServer}}
	for _, what := range c.components(c.options) {
		steps = append(steps, step{what.binary, func(ctx context.Context) error {
			return errors.Join(c.StopComponent(what.binary), c.StartComponent(ctx, what.binary))
		}})
	}
	for _, next := range steps {
		if err := next.upgrade(ctx); err != nil {
			return fmt.Errorf("upgrading %s: %w", next.binary, err)
		}
		if upgraded != nil {
			upgraded(next.binary)
		}
	}
	return nil
}

type step struct {
	binary  string
	upgrade func(context.Context) error
}

// upgradeEtcd starts the etcd of the present set on the data of the one that runs. Meanwhile the API
// server runs without one.
func (c *Cluster) upgradeEtcd(ctx context.Context) error {
	etcd, path := c.plane.Etcd, c.set.Load().Path(assets.Etcd)
	if etcd.Path == path {
		return nil
	}
	etcd.Path = path
	stopped := etcd.Stop()
	var err error
	for range startAttempts { // one that was killed lets go of its port and its data a little later
		if err = etcd.Start(); err == nil {
			return c.waitReady(ctx)
		}
	}
	return errors.Join(err, stopped)
}

func (c *Cluster) upgradeAPIServer(ctx context.Context) error {
	c.plane.APIServer.Path = c.set.Load().Path(assets.APIServer)
	return c.RestartAPIServer(ctx)
}
