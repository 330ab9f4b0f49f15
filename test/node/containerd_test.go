package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// The tests with a real container runtime run where containerdVariable is set: they need
// runc and nft (packages of Debian) and build containerd and others from their modules.
const (
	containerdVariable = "DRA_STEWARD_NODE_CONTAINERD"
	programsVariable   = "DRA_STEWARD_NODE_TEST_PROGRAMS"
)

const containerdNeeds = "make test-node runs it: it needs root, runc and nft (apt-get install runc nftables), and builds containerd"

// tools are the programs that are built from modules of their own, in testdata.
var tools = []struct{ module, name string }{
	{"containerd", "containerd"}, {"containerd", "containerd-shim-runc-v2"}, {"containerd", "ctr"},
	{"cni", "bridge"}, {"cni", "host-local"}, {"cni", "loopback"},
	{"kubelet", "kube-proxy"},
	{"helm", "helm"},
}

// buildPrograms builds the tools and the program of the image, and returns their paths,
// separated as in PATH.
func buildPrograms(ctx context.Context) (string, error) {
	for _, name := range []string{"runc", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", fmt.Errorf("%w: %s", err, containerdNeeds)
		}
	}
	var paths []string
	for _, tool := range tools {
		path, err := buildTool(ctx, tool.module, tool.name)
		if err != nil {
			return "", fmt.Errorf("building %s: %w", tool.name, err)
		}
		paths = append(paths, path)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "dra-steward", "bin", "node-app")
	command := exec.CommandContext(ctx, "go", "build", "-o", program, "./testdata/app")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program of the image: %w %s", err, out)
	}
	return strings.Join(append(paths, program), string(os.PathListSeparator)), nil
}

// program is the path of a program that buildPrograms has built. It skips the test where there
// is none.
func program(t testing.TB, name string) string {
	t.Helper()
	for _, path := range strings.Split(os.Getenv(programsVariable), string(os.PathListSeparator)) {
		if filepath.Base(path) == name {
			return path
		}
	}
	t.Skip(containerdNeeds)
	return ""
}

const containerdConfig = `version = 3
root = '%[1]s/root'
state = '%[1]s/state'
[grpc]
  address = '%[1]s/c.sock'
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'native'
  use_local_image_pull = true
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '%[2]s'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  enable_cdi = %[3]t
  cdi_spec_dirs = ['%[4]s']
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['%[1]s/cni']
    conf_dir = '%[1]s/cni'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '%[5]s'
`

// noNetwork satisfies containerd where all pods use the network of the node.
const noNetwork = `{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "none"}]}`

// shimSockets is where shims listen, whatever containerd is told.
const shimSockets = "/run/containerd"

// A containerd is the real one, with runc.
type containerd struct {
	testing.TB
	dir, socket, ctr string
}

// startContainerd starts it for pods in the network of the node, or skips the test.
func startContainerd(t testing.TB, cdiDir string, cdiEnabled bool) *containerd {
	t.Helper()
	return startContainerdWith(t, cdiDir, cdiEnabled, noNetwork)
}

// startContainerdWith starts it with the images and the network of pods, or skips the test.
func startContainerdWith(t testing.TB, cdiDir string, cdiEnabled bool, network string) *containerd {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip(containerdNeeds)
	}
	dir := tempDir(t)
	c := &containerd{TB: t, dir: dir, socket: filepath.Join(dir, "c.sock"), ctr: program(t, "ctr")}
	for _, path := range []string{shimSockets, filepath.Join(dir, "cni")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range map[string]string{
		"config.toml":          fmt.Sprintf(containerdConfig, dir, pauseImage, cdiEnabled, cdiDir, runc),
		"cni/10-pods.conflist": network,
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bridge", "host-local", "loopback"} {
		if err := os.Symlink(program(t, name), filepath.Join(dir, "cni", name)); err != nil {
			t.Fatal(err)
		}
	}
	c.start(program(t, "containerd"), filepath.Dir(program(t, "containerd-shim-runc-v2")))
	for name, arguments := range map[string][]string{image: nil, pauseImage: {"-pause"}} {
		c.run("images", "import", writeImage(t, name, program(t, "node-app"), arguments...))
	}
	return c
}

// start runs containerd until the end of the test.
func (c *containerd) start(program, shims string) {
	log, err := os.Create(filepath.Join(c.dir, "containerd.log"))
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(program, "--config", filepath.Join(c.dir, "config.toml"))
	command.Env = append(os.Environ(), "PATH="+shims+string(os.PathListSeparator)+os.Getenv("PATH"))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if c.Failed() {
			content, _ := os.ReadFile(log.Name())
			c.Logf("end of containerd's log:\n%s", content[max(0, len(content)-6000):])
		}
		_ = command.Process.Kill()
		_ = command.Wait()
		c.endShims()
	})
	err = wait.PollUntilContextTimeout(c.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		conn, err := net.Dial("unix", c.socket)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	if err != nil {
		content, _ := os.ReadFile(log.Name())
		c.Fatalf("containerd does not listen: %v\n%s", err, content)
	}
}

// endShims ends what a failed test has left: shims and containers outlive containerd.
func (c *containerd) endShims() {
	tasks, _ := filepath.Glob(filepath.Join(c.dir, "state", "io.containerd.runtime.v2.task", "k8s.io", "*"))
	for _, task := range tasks {
		for _, name := range []string{"init.pid", "shim.pid"} {
			content, err := os.ReadFile(filepath.Join(task, name))
			if pid, wrong := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && wrong == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = syscall.Unmount(filepath.Join(task, "rootfs"), syscall.MNT_DETACH)
	}
	shms, _ := filepath.Glob(filepath.Join(c.dir, "state", "io.containerd.grpc.v1.cri", "sandboxes", "*", "shm"))
	for _, shm := range shms {
		_ = syscall.Unmount(shm, syscall.MNT_DETACH)
	}
}

// run runs ctr in the namespace of the kubelet.
func (c *containerd) run(arguments ...string) string {
	c.Helper()
	command := exec.CommandContext(c.Context(), c.ctr, append([]string{"--address", c.socket, "--namespace", "k8s.io"}, arguments...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		c.Fatalf("ctr %v: %v %s", arguments, err, out)
	}
	return string(out)
}

// logged is what a container has printed, from the kubelet's folder of logs: its devices.
func logged(pod, container string) (string, error) {
	files, err := filepath.Glob(filepath.Join("/var/log/pods", "*_"+pod+"_*", container, "*.log"))
	if err == nil && len(files) == 0 {
		err = errors.New("no log of " + pod + "/" + container)
	}
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(files[len(files)-1])
	return string(content), err
}

// environmentOf waits for all that a container prints.
func (w *world) environmentOf(pod, container string) map[string]string {
	w.Helper()
	environment := map[string]string{}
	w.eventually(pod+"/"+container+" prints its environment", func(context.Context) (bool, string) {
		text, err := logged(pod, container)
		if err != nil || !strings.Contains(text, "READY=1") {
			return false, fmt.Sprint(err, text)
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line) // time, stream, tag, what it has printed
			if key, value, ok := strings.Cut(fields[len(fields)-1], "="); ok && key != "READY" {
				environment[key] = value
			}
		}
		return true, ""
	})
	return environment
}

// kill ends the process of a container.
func (w *world) kill(id string) {
	w.Helper()
	_, id, _ = strings.Cut(id, "://")
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "node-*", "state", "io.containerd.runtime.v2.task", "k8s.io", id, "init.pid"))
	if err != nil || len(files) != 1 {
		w.Fatalf("the process of container %s: %v %v", id, files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		w.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		w.Fatal(err)
	}
}
