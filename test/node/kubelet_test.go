package node

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kubeletVariable asks for the kubelet of an older minor, such as 1.36. The control plane is that of
// DRA_STEWARD_KUBERNETES: kubelets may be three minors older than the API server.
const kubeletVariable = "DRA_STEWARD_KUBELET"

// buildKubelet builds the kubelet, if Go's cache has it not, and returns its path.
func buildKubelet(ctx context.Context) (string, error) {
	module := "kubelet"
	if minor := os.Getenv(kubeletVariable); minor != "" {
		module += "-" + minor
		if _, err := os.Stat(filepath.Join("testdata", module)); err != nil {
			return "", fmt.Errorf("%s: %w; must be one of the minors of testdata/kubelet-<minor>, or empty for the newest", kubeletVariable, err)
		}
	}
	return buildTool(ctx, module, "kubelet")
}

// buildTool builds a tool of a module in testdata, if Go's cache has it not, and returns its
// path.
func buildTool(ctx context.Context, module, name string) (string, error) {
	command := exec.CommandContext(ctx, "go", "tool", "-n", name)
	command.Dir = filepath.Join("testdata", module)
	command.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath", "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

// kubeletMinor is the minor version of the kubelet by the module that it is built from: 37 for 1.37.0. The
// kubelet itself has no version, which Kubernetes' own build would give it.
func kubeletMinor(t testing.TB) (minor int) {
	t.Helper()
	info, err := buildinfo.ReadFile(inside.kubelet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(info.Main.Version, "v1.%d.", &minor); err != nil {
		t.Fatalf("version %q of the kubelet: %v", info.Main.Version, err)
	}
	if asked := os.Getenv(kubeletVariable); asked != "" && asked != fmt.Sprint("1.", minor) {
		t.Fatalf("%s asks for %s, the kubelet is %s", kubeletVariable, asked, info.Main.Version)
	}
	return minor
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
healthzBindAddress: %[1]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%[2]s
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
`

// A kubelet is the real one, with the root directory that it has by default.
type kubelet struct {
	path, kubeconfig, config string
	cwd, log                 string
	// node is its name, address its IP address.
	node, address string
	// state is the folder that it has over the fixed paths, in a mount namespace of its own. Empty is the
	// namespace of the tests.
	state string
	// network is the network namespace of one with a state.
	network *os.File
	command *exec.Cmd
	done    chan struct{}
}

const kubeletRoot = "/var/lib/kubelet"

func newKubelet(t testing.TB, path, kubeconfig, runtime string) *kubelet {
	return newKubeletOf(t, nodeName, nodeAddress, path, kubeconfig, runtime)
}

// newKubeletOf is that of a node with an address.
func newKubeletOf(t testing.TB, node, address, path, kubeconfig, runtime string) *kubelet {
	dir := tempDir(t)
	k := &kubelet{node: node, address: address, path: path, kubeconfig: kubeconfig, config: filepath.Join(dir, "config.yaml"), cwd: filepath.Join(dir, "cwd"), log: filepath.Join(dir, "kubelet.log")}
	if err := os.Mkdir(k.cwd, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k.config, fmt.Appendf(nil, kubeletConfig, address, runtime), 0o644); err != nil {
		t.Fatal(err)
	}
	return k
}

// start starts it in an empty folder: it deletes files of its working directory.
func (k *kubelet) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(k.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	k.command = exec.Command(k.path, "--kubeconfig="+k.kubeconfig, "--config="+k.config, "--root-dir="+kubeletRoot, "--hostname-override="+k.node, "--node-ip="+k.address, "--v=2")
	k.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if k.state != "" {
		k.apart()
	}
	k.command.Dir = k.cwd
	k.command.Stdout, k.command.Stderr = log, log
	if err := k.command.Start(); err != nil {
		t.Fatal(err)
	}
	k.done = make(chan struct{})
	go func(command *exec.Cmd, done chan struct{}) {
		_ = command.Wait()
		close(done)
	}(k.command, k.done)
}

// stop kills it, as a crash does.
func (k *kubelet) stop(t testing.TB) {
	t.Helper()
	if k.command == nil {
		return
	}
	if err := k.command.Process.Kill(); err != nil {
		t.Error(err)
	}
	select {
	case <-k.done:
	case <-time.After(patience):
		t.Error("the kubelet does not end")
	}
	k.command = nil
}

// useCgroups lets it keep a cgroup for each pod, below one of its own, from its next start on. Without
// these, a kubelet of 1.37 crashes when it resizes a container. The error is that no cgroup can be created here.
func (k *kubelet) useCgroups(t testing.TB) error {
	t.Helper()
	name := filepath.Base(filepath.Dir(k.config))
	content, err := os.ReadFile(k.config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), "cgroupsPerQOS: false", "cgroupsPerQOS: true\ncgroupRoot: /"+name, 1)
	if err := os.WriteFile(k.config, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, parent := range hierarchies(t) {
		own := filepath.Join(parent, name)
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := removeCgroup(own); err != nil {
				t.Error(err)
			}
		})
	}
	return nil
}

// hierarchies are the mount points of cgroups: one, or one for each controller.
func hierarchies(t testing.TB) (all []string) {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}
	}
	controllers, err := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range controllers {
		// The name of one controller is a link where two share a hierarchy.
		if info, err := os.Lstat(filepath.Dir(file)); err == nil && info.IsDir() {
			all = append(all, filepath.Dir(file))
		}
	}
	return all
}

// removeCgroup removes a cgroup with those below it.
func removeCgroup(path string) error {
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(path, entry.Name())))
		}
	}
	return errors.Join(err, syscall.Rmdir(path))
}

// forget removes what it keeps about pods; the next one starts without it.
func (k *kubelet) forget(t testing.TB) {
	for _, name := range []string{"pods", "dra_manager_state", "cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint"} {
		if err := os.RemoveAll(filepath.Join(kubeletRoot, name)); err != nil {
			t.Error(err)
		}
	}
}

// tail is the end of its log.
func (k *kubelet) tail() string {
	content, err := os.ReadFile(k.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-6000):])
}
