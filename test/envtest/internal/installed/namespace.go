package installed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/tools/build"
)

// insideVariable holds the path of the program for the process in the namespace.
const insideVariable = "DRA_STEWARD_INSTALLED_PROGRAM"

// Main runs a package's tests in a network namespace, with a cluster that they share and
// whose API server calls Services. Where no namespace can be had, use is called with nil
// and the reason, and the tests run without a cluster, to skip. It returns the exit code.
func Main(m interface{ Run() int }, o envtest.Options, use func(*envtest.Cluster, error)) int {
	flag.Parse()
	if os.Getenv(insideVariable) != "" {
		if err := loopback(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback in the network namespace:", err)
			return 1
		}
		o.APIServerArgs = withRouting(o.APIServerArgs)
		o.ControllerManager = true
		return envtest.Main(m, o, func(c *envtest.Cluster) { use(c, nil) })
	}
	if testing.Short() {
		use(nil, errors.New("no control plane is started in short mode"))
		return m.Run()
	}
	code, err := enter(o)
	if err == nil {
		return code
	}
	use(nil, err)
	return m.Run()
}

// withRouting adds the flag that leads from a Service to its endpoints without a proxy.
func withRouting(args map[string][]string) map[string][]string {
	all := map[string][]string{"enable-aggregator-routing": {"true"}}
	for name, values := range args {
		all[name] = values
	}
	return all
}

// enter runs this test binary again in a namespace and returns its exit code, or why that
// cannot be.
func enter(o envtest.Options) (int, error) {
	if os.Getuid() != 0 {
		return 0, fmt.Errorf("a network namespace needs root; this is user %d", os.Getuid())
	}
	probe := exec.Command(os.Args[0], "-test.run=^$", "-test.short")
	probe.SysProcAttr = isolated()
	if out, err := probe.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("a network namespace: %w %s", err, out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Outside there is a network, for the modules that a first build downloads.
	binaries := []string{assets.Etcd, assets.APIServer, assets.ControllerManager}
	if o.Scheduler {
		binaries = append(binaries, assets.Scheduler)
	}
	if o.Kubectl {
		binaries = append(binaries, assets.Kubectl)
	}
	if _, err := assets.Get(ctx, assets.Options{Kubernetes: o.Kubernetes, Binaries: binaries, Output: os.Stderr}); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "dra-steward-installed-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "dra-steward")
	if err := shipped(ctx, program); err != nil {
		return 1, err
	}
	return again(ctx, program)
}

// shipped builds the program as its image has it.
func shipped(ctx context.Context, output string) error {
	tree, err := repository(ctx)
	if err != nil {
		return err
	}
	stamp, err := build.Read(ctx, tree)
	if err != nil {
		return err
	}
	return build.Program(ctx, build.Options{Tree: tree, Output: output, Stamp: stamp})
}

// repository returns the root of the repository, whichever package is tested.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/dra-steward/dra-steward").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// again runs this binary with the same arguments in a namespace.
func again(ctx context.Context, program string) (int, error) {
	command := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), insideVariable+"="+program)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = isolated()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func isolated() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
}

// loopback switches the interface on.
func loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
