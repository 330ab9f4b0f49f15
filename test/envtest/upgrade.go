package envtest

import (
	"context"
	"fmt"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// Upgrade replaces one process after the other by that of another version, as an installer
// does: the API server, then the controller-manager and the scheduler, if Options asked for
// them. Their flags stay, and so does what is stored. After each, it calls upgraded, unless that is
// nil, with the name of the binary.
func (c *Cluster) Upgrade(ctx context.Context, kubernetes string, upgraded func(binary string)) error {
	set, err := assets.Get(ctx, assets.Options{Kubernetes: kubernetes, Binaries: c.options.binaries(), Output: c.options.Output})
	if err != nil {
		return fmt.Errorf("control plane binaries: %w", err)
	}
	c.set.Store(set)
	c.plane.APIServer.Path = set.Path(assets.APIServer)
	if err := c.RestartAPIServer(ctx); err != nil {
		return err
	}
	steps := []string{assets.APIServer}
	for _, what := range c.components(c.options) {
		steps = append(steps, what.binary)
	}
	for _, binary := range steps {
		if binary != assets.APIServer {
			if err := c.StopComponent(binary); err != nil {
				return err
			}
			if err := c.StartComponent(ctx, binary); err != nil {
				return err
			}
		}
		if upgraded != nil {
			upgraded(binary)
		}
	}
	return nil
}
