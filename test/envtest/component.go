package envtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// component is a process that works against the API server under an identity
// of its own.
type component struct {
	binary string
	health string // path of its health check
	flags  map[string][]string
}

// startComponents starts the controller-manager and the scheduler as requested
// and waits until their health checks succeed.
func (c *Cluster) startComponents(ctx context.Context, o Options) error {
	ca := filepath.Join(c.dir.path, "ca.crt")
	if err := os.WriteFile(ca, c.admin.CAData, 0o600); err != nil {
		return err
	}
	if o.ControllerManager {
		if err := c.startComponent(ctx, o, o.ControllerManagerArgs, component{assets.ControllerManager, "/healthz", map[string][]string{
			"use-service-account-credentials":  {"true"},
			"service-account-private-key-file": {filepath.Join(c.plane.APIServer.CertDir, "sa-signer.key")},
			"root-ca-file":                     {ca},
		}}); err != nil {
			return err
		}
	}
	if o.Scheduler {
		return c.startComponent(ctx, o, o.SchedulerArgs, component{assets.Scheduler, "/readyz", map[string][]string{
			"authentication-skip-lookup": {"true"},
		}})
	}
	return nil
}

// startComponent starts one component, again with another port if it could not
// listen.
func (c *Cluster) startComponent(ctx context.Context, o Options, overrides map[string][]string, what component) error {
	kubeconfig, err := c.UserKubeconfig("system:" + what.binary)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		flags := map[string][]string{
			"kubeconfig":   {kubeconfig},
			"leader-elect": {"false"},
			"bind-address": {"127.0.0.1"},
			"secure-port":  {port},
		}
		maps.Copy(flags, what.flags)
		setSwitches(flags, "feature-gates", o.FeatureGates)
		maps.Copy(flags, overrides)
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

// run starts the process and waits until it is healthy.
func (c *Cluster) run(ctx context.Context, what component, flags map[string][]string) error {
	log, err := c.createLog(what.binary)
	if err != nil {
		return err
	}
	cmd := proc.Command(exec.Command(c.set.Path(what.binary), arguments(flags)...))
	cmd.Dir = c.dir.path
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state is in cmd.ProcessState
		close(exited)
	}()
	c.cleanup = append(c.cleanup, func() error { return stop(cmd, exited) })
	if slices.Equal(flags["secure-port"], []string{"0"}) {
		return nil // nothing to ask
	}
	url := "https://" + net.JoinHostPort("127.0.0.1", flags["secure-port"][0]) + what.health
	return waitHealthy(ctx, url, cmd, exited)
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

// waitHealthy polls url until it answers 200 or the process has exited.
func waitHealthy(ctx context.Context, url string, cmd *exec.Cmd, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The certificate is self-signed and on loopback: there is nothing to verify.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		select {
		case <-exited:
			return fmt.Errorf("it ended at its start: %s", cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", url, errors.Join(ctx.Err(), last))
		case <-ticker.C:
			if last = get(ctx, client, url); last == nil {
				return nil
			}
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// stop terminates the process, and kills it when it does not end in time.
func stop(cmd *exec.Cmd, exited <-chan struct{}) error {
	if err := proc.Terminate(cmd); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-exited:
		return nil
	case <-timer.C:
	}
	err := proc.Kill(cmd)
	<-exited
	return errors.Join(fmt.Errorf("%s did not end within %s and was killed", filepath.Base(cmd.Path), stopTimeout), err)
}

// freePort returns a port of the loopback interface that was free just now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), listener.Close()
}
