package envtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// component is a process that works against the API server under an identity
// of its own.
type component struct {
	binary    string
	program   string // what to run in place of the released binary
	config    string // text of a configuration file
	health    string // path of its health check
	flags     map[string][]string
	overrides map[string][]string
}

// components returns what is requested, in the order of its start.
func (c *Cluster) components(o Options) []component {
	var requested []component
	if o.ControllerManager {
		requested = append(requested, component{binary: assets.ControllerManager, health: "/healthz", overrides: o.ControllerManagerArgs, flags: map[string][]string{
			"use-service-account-credentials":  {"true"},
			"service-account-private-key-file": {filepath.Join(c.plane.APIServer.CertDir, "sa-signer.key")},
			"root-ca-file":                     {filepath.Join(c.dir.path, "ca.crt")},
		}})
	}
	if o.Scheduler {
		requested = append(requested, component{binary: assets.Scheduler, program: o.SchedulerProgram, config: o.SchedulerConfiguration, health: "/readyz", overrides: o.SchedulerArgs, flags: map[string][]string{
			"authentication-skip-lookup": {"true"},
		}})
	}
	return requested
}

// startComponents starts the requested components.
func (c *Cluster) startComponents(ctx context.Context, o Options) error {
	if err := os.WriteFile(filepath.Join(c.dir.path, "ca.crt"), c.admin.CAData, 0o600); err != nil {
		return err
	}
	for _, what := range c.components(o) {
		if err := c.StartComponent(ctx, what.binary); err != nil {
			return err
		}
	}
	return nil
}

// StartComponent starts a component again that StopComponent has stopped:
// assets.ControllerManager or assets.Scheduler, if Options asked for it. It
// returns when the component's health check succeeds.
func (c *Cluster) StartComponent(ctx context.Context, binary string) error {
	c.componentsLock.Lock()
	defer c.componentsLock.Unlock()
	requested := c.components(c.options)
	i := slices.IndexFunc(requested, func(what component) bool { return what.binary == binary })
	if i < 0 {
		return fmt.Errorf("%s is not one of the components that the cluster's Options ask for", binary)
	}
	if running := c.running[binary]; running != nil && !running.hasExited() {
		return nil
	}
	return c.startComponent(ctx, requested[i])
}

// StopComponent stops a component; it does nothing if it does not run.
func (c *Cluster) StopComponent(binary string) error {
	c.componentsLock.Lock()
	defer c.componentsLock.Unlock()
	if running := c.running[binary]; running != nil {
		return running.stop()
	}
	return nil
}

// startComponent starts one component, again with another port if it could not
// listen.
func (c *Cluster) startComponent(ctx context.Context, what component) error {
	kubeconfig, err := c.UserKubeconfig("system:" + what.binary)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		address, err := freeport.Loopback()
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		flags := map[string][]string{
			"kubeconfig":   {kubeconfig},
			"leader-elect": {"false"},
			"bind-address": {"127.0.0.1"},
			"secure-port":  {port},
		}
		if what.config != "" {
			if flags["config"], err = c.writeConfiguration(what, kubeconfig); err != nil {
				return err
			}
		}
		maps.Copy(flags, what.flags)
		setSwitches(flags, "feature-gates", c.options.FeatureGates)
		maps.Copy(flags, what.overrides)
		err = c.run(ctx, what, flags)
		if err == nil {
			return nil
		}
		tail := proc.Tail(c.Log(what.binary), logLines)
		if !strings.Contains(tail, "address already in use") || attempt == startAttempts {
			return fmt.Errorf("%s: %w; the end of its log:\n%s", what.binary, err, tail)
		}
	}
}

// writeConfiguration writes the configuration file of a component, with its connection,
// and returns the value of its flag.
func (c *Cluster) writeConfiguration(what component, kubeconfig string) ([]string, error) {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(what.config), &content); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", what.binary, err)
	}
	connection, _ := content["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{}
		content["clientConnection"] = connection
	}
	connection["kubeconfig"] = kubeconfig
	text, err := yaml.Marshal(content)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.dir.path, what.binary+".yaml")
	return []string{file}, os.WriteFile(file, text, 0o600)
}

// run starts the process and waits until it is healthy.
func (c *Cluster) run(ctx context.Context, what component, flags map[string][]string) error {
	log, err := c.createLog(what.binary)
	if err != nil {
		return err
	}
	p, err := startProcess(cmp.Or(what.program, c.set.Load().Path(what.binary)), c.dir.path, log, arguments(flags))
	if err != nil {
		return err
	}
	c.running[what.binary] = p
	c.cleanup = append(c.cleanup, p.stop)
	if slices.Equal(flags["secure-port"], []string{"0"}) {
		return nil // nothing to ask
	}
	return p.waitHealthy(ctx, "https://"+net.JoinHostPort("127.0.0.1", flags["secure-port"][0])+what.health)
}

// arguments turns flags into a command line, sorted by name.
func arguments(flags map[string][]string) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		for _, value := range flags[name] {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}
