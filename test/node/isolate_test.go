package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// A kubelet uses fixed paths of its host, sets kernel parameters, and deletes files in
// its working directory. So the tests run once more, inside of mount and network
// namespaces of their own, with empty folders over these paths. Where that cannot be
// had, those that need a kubelet refuse to run.

// insideVariable holds the path of the kubelet for the process inside.
const insideVariable = "DRA_STEWARD_NODE_TEST_KUBELET"

// refusal says why no kubelet may run here; empty inside of the namespaces.
var refusal = "not inside of its own namespaces"

func TestMain(m *testing.M) {
	if args := os.Getenv(argsVariable); args != "" {
		os.Exit(cli.Run(context.Background(), strings.Split(args, "\n"), cmdutil.Streams{Out: os.Stderr, Err: os.Stderr}))
	}
	if state := os.Getenv(stateVariable); state != "" {
		fmt.Fprintln(os.Stderr, "a kubelet in a namespace of its own:", become(state, os.Args[1:]))
		os.Exit(1)
	}
	flag.Parse()
	switch kubelet := os.Getenv(insideVariable); {
	case kubelet != "":
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "furnishing the namespaces:", err)
			os.Exit(1)
		}
		refusal = ""
		os.Exit(runInside(m, kubelet))
	case testing.Short() || fuzzing():
		refusal = "a kubelet is not started in short mode, nor while fuzzing"
	default:
		code, err := enter()
		if err == nil {
			os.Exit(code)
		}
		refusal = err.Error()
		fmt.Fprintln(os.Stderr, "no kubelet:", refusal)
		if os.Getenv(containerdVariable) != "" {
			os.Exit(1) // these tests were asked for, so they must not be skipped
		}
	}
	os.Exit(m.Run())
}

func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	worker := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() != "" || worker != nil && worker.Value.String() == "true"
}

// enter runs this test binary again inside and returns its exit code, or why that
// cannot be.
func enter() (int, error) {
	if err := try(); err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Outside there is a network, for the modules that a first build downloads.
	if _, err := assets.Get(ctx, assets.Options{Output: os.Stderr}); err != nil {
		return 0, fmt.Errorf("building the control plane: %w", err)
	}
	kubelet, err := buildKubelet(ctx)
	if err != nil {
		return 0, fmt.Errorf("building the kubelet: %w", err)
	}
	command := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), insideVariable+"="+kubelet)
	if os.Getenv(containerdVariable) != "" {
		programs, err := buildPrograms(ctx)
		if err != nil {
			return 0, err
		}
		releases, err := buildReleases(ctx)
		if err != nil {
			return 0, err
		}
		command.Env = append(command.Env, programsVariable+"="+programs, releasesVariable+"="+releases)
	}
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = namespaces()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
}

// try finds out whether the namespaces can be had.
func try() error {
	if os.Getuid() != 0 {
		return errors.New("a kubelet needs root; this is user " + fmt.Sprint(os.Getuid()))
	}
	command := exec.Command(os.Args[0], "-test.run=^$", "-test.short")
	command.SysProcAttr = namespaces()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mount and network namespaces: %w %s", err, out)
	}
	for _, path := range hidden {
		if _, err := os.Stat(path); err == nil {
			continue
		}
		// The folder above is hidden instead, so nothing that is needed may be in it.
		for _, needed := range []string{os.Getenv("HOME"), os.Args[0], os.TempDir()} {
			if strings.HasPrefix(needed, filepath.Dir(path)+"/") {
				return fmt.Errorf("%s does not exist, but %s does", path, needed)
			}
		}
	}
	return nil
}

// hidden are the fixed paths of a kubelet.
var hidden = []string{"/var/lib/kubelet", "/var/log/pods", "/var/log/containers"}

// kernel are the parameters that a kubelet sets, with the values that it wants.
var kernel = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// furnish hides the fixed paths, gives the kubelet parameters that need no setting,
// and an address.
func furnish() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	// Among processes of the namespace they are shared, as on a node: containers get what is
	// mounted later.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts inside: %w", err)
	}
	for _, path := range hidden {
		if err := hide(path); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("/var/lib/kubelet", "kernel-")
	if err != nil {
		return err
	}
	for name, value := range kernel {
		stand := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(stand, []byte(value+"\n"), 0o444); err != nil {
			return err
		}
		err := syscall.Mount(stand, "/proc/sys/"+name, "", syscall.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hiding /proc/sys/%s: %w", name, err)
		}
	}
	return addAddress()
}

func hide(path string) error {
	over := path
	if _, err := os.Stat(path); err != nil {
		over = filepath.Dir(path)
	}
	if err := syscall.Mount("tmpfs", over, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("hiding %s: %w", over, err)
	}
	return os.MkdirAll(path, 0o755)
}

// addAddress gives the loopback interface an address outside of 127.0.0.0/8 for the kubelet, and the default
// route.
func addAddress() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	address, err := netlink.ParseAddr(nodeAddress + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(lo, address); err != nil {
		return err
	}
	_, all, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: all, Src: net.ParseIP(nodeAddress)})
}
