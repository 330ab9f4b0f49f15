package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest/internal/taintrules"
)

// patience is how long a line may take on a busy machine.
const patience = 3 * time.Minute

// What testWatch creates.
const (
	rule = `
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: watched}
spec: {deviceSelector: {driver: gpu.example.com, pool: node-1, device: gpu-1}, taint: {key: example.com/watched, effect: %s}}
`
	deviceDrain = `
apiVersion: dra-steward.io/v1alpha1
kind: DeviceDrain
metadata: {name: watched}
spec: {devices: [{driver: a.example, pool: b, device: c}]}
`
)

// testWatch: -w prints what changes without another list, goes on after the API server was
// away, and ends with the exit code of kubectl.
func testWatch(t *testing.T) {
	removeRules(t)
	kubectl := follow(t, cluster.Kubectl(t.Context(), "get", "nodes", "-w"))
	devices := follow(t, ours(t, "devices -w"))
	objects := follow(t, ours(t, "devices -w -o json"))
	drains := follow(t, ours(t, "drain --list -w"))
	report := follow(t, ours(t, "report -w --config ../../../examples/site.yaml"))
	kubectl.wants("node-1 ")
	devices.wants(`gpu-1 .* team-a/train +- +-`, `2 devices: 1 allocated, 1 free; `)
	objects.wants(`"device": "gpu-1"`)
	drains.wants("there are no drains")
	report.wants("STEP +REFUSES")
	lists := requests(t, "LIST", "resourceslices")
	apply(t, fmt.Sprintf(rule, preview()))
	devices.wants(`gpu-1 .*example.com/watched:`+preview()+` .*rule/`, `2 devices: .* tainted`)
	objects.wants(`"key": "example.com/watched"`)
	report.wants("example.com/watched")
	if got := requests(t, "LIST", "resourceslices"); got != lists {
		t.Errorf("%s lists of ResourceSlices, %s before the change", got, lists)
	}
	want := kubectl.interrupt() // it ends with its watch
	if err := cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	drains.wants("warning: not current since .*; trying again")
	if out, err := cluster.Kubectl(t.Context(), "delete", "devicetaintrule/watched").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	devices.wants(`gpu-1 .* team-a/train +- +-`)
	apply(t, deviceDrain)
	drains.wants("watched +0 +waiting for the controller")
	for _, f := range []*followed{devices, objects, drains, report} {
		if got := f.interrupt(); got != want {
			t.Errorf("%s: exit code %d, kubectl has %d", f.cmd, got, want)
		}
	}
}

func remove(t *testing.T, args ...string) {
	t.Helper()
	if out, err := cluster.Kubectl(context.WithoutCancel(t.Context()), append([]string{"delete"}, args...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// removeRules removes the rules of other tests.
func removeRules(t *testing.T) {
	t.Helper()
	if out, err := cluster.Kubectl(t.Context(), "delete", "devicetaintrules", "--all").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// installTypes installs the chart's own types.
func installTypes(t *testing.T) {
	t.Helper()
	all, err := chart.Render(nil, chart.Options{KubeVersion: cluster.Version()})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		if object.GetKind() == "CustomResourceDefinition" {
			apply(t, string(must(json.Marshal(object))(t)))
			if out, err := cluster.Kubectl(t.Context(), "wait", "--for=condition=Established", "crd/"+object.GetName()).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
}

// apply creates an object. A DeviceTaintRule gets the version that the minor under test serves.
func apply(t *testing.T, text string) {
	t.Helper()
	served := "apiVersion: " + cluster.DeviceTaintRules().GroupVersion().String() + "\nkind: DeviceTaintRule"
	text = strings.Replace(text, "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule", served, 1)
	c := cluster.Kubectl(t.Context(), "create", "-f", "-")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func preview() string { return string(taintrules.Preview(cluster)) }

// requests is the API server's own count of requests of all groups for a resource.
func requests(t *testing.T, verb, resource string) string {
	t.Helper()
	text := must(must(kubernetes.NewForConfig(cluster.Config()))(t).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)
	counts := regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="`+resource+`".*verb="`+verb+`".*\} (.*)$`).FindAllStringSubmatch(string(text), -1)
	var all []string
	for _, count := range counts {
		all = append(all, count[1])
	}
	return strings.Join(all, "+")
}

// ours is the program as a process of its own.
func ours(t *testing.T, line string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl-dra_steward")
	if err := os.Symlink(must(os.Executable())(t), program); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), program, append(strings.Fields(line), "--kubeconfig="+cluster.Kubeconfig())...)
}

// followed is a command that prints until it is interrupted.
type followed struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{}
}

func follow(t *testing.T, cmd *exec.Cmd) *followed {
	t.Helper()
	f := &followed{t: t, cmd: cmd, lines: make(chan string, 1000), ended: make(chan struct{})}
	out, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			f.lines <- scanner.Text()
		}
		close(f.lines)
	})
	go func() {
		_ = cmd.Wait()
		_ = write.Close()
		done.Wait()
		close(f.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-f.ended
	})
	return f
}

// wants waits for lines that match, in this order.
func (f *followed) wants(patterns ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	var seen []string
	for _, pattern := range patterns {
		for matches := false; !matches; {
			select {
			case line, more := <-f.lines:
				if seen = append(seen, line); !more {
					f.t.Fatalf("%s: ended without %q:\n%s", f.cmd, pattern, strings.Join(seen, "\n"))
				}
				matches = regexp.MustCompile(pattern).MatchString(line)
			case <-ctx.Done():
				f.t.Fatalf("%s: no %q in\n%s", f.cmd, pattern, strings.Join(seen, "\n"))
			}
		}
	}
}

// interrupt is Ctrl-C; it returns the exit code.
func (f *followed) interrupt() int {
	f.t.Helper()
	if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
		f.t.Fatal(err)
	}
	select {
	case <-f.ended:
	case <-time.After(patience):
		f.t.Errorf("%s does not end", f.cmd)
		return -1
	}
	return f.cmd.ProcessState.ExitCode()
}
