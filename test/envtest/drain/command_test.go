package drain_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// command runs the program as an administrator, and returns its exit code and what it
// wrote.
func command(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := cli.Run(t.Context(), append([]string{"drain", "--kubeconfig=" + cluster.Kubeconfig()}, args...), cmdutil.Streams{Out: &out, Err: &out})
	return code, out.String()
}

// expect runs the program and looks for texts in what it writes.
func expect(t *testing.T, code int, texts []string, args ...string) {
	t.Helper()
	got, out := command(t, args...)
	if got != code {
		t.Errorf("%q: exit code %d, want %d", args, got, code)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%q: no %q in\n%s", args, text, out)
		}
	}
}

// cancelling cancels the command that writes to it once it has written a text.
type cancelling struct {
	bytes.Buffer
	after  string
	cancel context.CancelFunc
}

func (c *cancelling) Write(data []byte) (int, error) {
	n, err := c.Buffer.Write(data)
	if strings.Contains(c.String(), c.after) {
		c.cancel()
	}
	return n, err
}

// TestCommand drains one device by the command: a plan, what blocks, the drain with its
// progress, the same command again, and the other ways to steer one.
func TestCommand(t *testing.T) {
	s := newSite(t, "command", 1)
	s.publish(1, 2, 0)
	s.replicas("web", 1, "")
	s.budget("web", "web", 1)
	full := s.driver + "/node-0/gpu-0"

	expect(t, cmdutil.ExitFailed, []string{`no device, pool or driver "gpu-77"`}, "gpu-77")
	expect(t, cmdutil.ExitFailed, []string{"name devices as DRIVER/POOL/DEVICE"})
	expect(t, cmdutil.ExitFailed, []string{"--output: only --list has formats"}, full, "--dry-run", "-o", "json")
	expect(t, cmdutil.ExitFailed, []string{"--no-headers: only --list has a header"}, full, "--no-headers")
	expect(t, cmdutil.ExitFailed, []string{"--timeout: add --wait"}, full, "--timeout=3s")
	expect(t, cmdutil.ExitFindings, []string{"cordon " + full, "blocked BudgetBlocked", "command/web allows no eviction"}, full, "--dry-run=server")
	if _, err := drains.Get(t.Context(), "command", metav1.GetOptions{}); err == nil {
		t.Error("a dry run created the drain")
	}
	// The thresholds are those of the release, from where the chart puts them.
	site := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dra-steward", Labels: map[string]string{"app.kubernetes.io/name": "dra-steward"}},
		Data: map[string]string{"config.yaml": "apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\nguard: {thresholds: {pods: 0}}\n"}}
	do(s, s.create(c.CoreV1().ConfigMaps(s.name).Create(t.Context(), site, metav1.CreateOptions{})))
	expect(t, cmdutil.ExitFindings, []string{"blocked AboveThreshold: 1 pod is more than the threshold of 0", "thresholds: ConfigMap command/dra-steward"}, full, "--dry-run")
	do(s, c.CoreV1().ConfigMaps(s.name).Delete(t.Context(), site.Name, metav1.DeleteOptions{}))
	expect(t, cmdutil.ExitClean, []string{"devicedrain command created"}, full, "--name=command", "--rate=30")
	s.wait("command", "Blocked=True BudgetBlocked")
	expect(t, cmdutil.ExitFindings, []string{"Blocked", "is not drained"}, full, "--name=command", "--wait", "--timeout=3s")
	interrupted, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := cancelling{after: "Blocked", cancel: cancel}
	code := cli.Run(interrupted, []string{"drain", "--kubeconfig=" + cluster.Kubeconfig(), full, "--name=command", "--wait"}, cmdutil.Streams{Out: &out, Err: &out})
	if code != cmdutil.ExitFindings || !strings.Contains(out.String(), "the controller continues with devicedrain command\n") || !strings.Contains(out.String(), "dra-steward drain --cancel command\n") {
		t.Errorf("interrupted: exit code %d\n%s", code, out.String())
	}
	expect(t, cmdutil.ExitFailed, []string{`"node-0/gpu-0" is the name of a device, not of a drain`, "drain --list"}, "--cancel", "node-0/gpu-0")
	expect(t, cmdutil.ExitClean, []string{"devicedrain command paused"}, "--pause", "devicedrain/command")
	s.wait("command", "Draining=False Paused")
	expect(t, cmdutil.ExitClean, []string{"command", "Blocked"}, "--list")

	s.publish(1, 3, 1)
	if err := c.PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, cmdutil.ExitClean, []string{"resumed", "Drained, 1 evicted"}, full, "--name=command", "--rate=60", "--wait", "--timeout=3m")
	if rate := *s.get("command", t.Context()).Spec.EvictionsPerMinute; rate != 60 {
		t.Errorf("the rate is %d", rate)
	}
	expect(t, cmdutil.ExitFailed, []string{"for other devices"}, s.driver+"/node-1/gpu-0", "--name=command")
	expect(t, cmdutil.ExitClean, []string{"deleted"}, "--cancel", "command")
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) {
		list, err := rules.List(ctx, metav1.ListOptions{LabelSelector: "dra-steward.io/drain=command"})
		return err == nil && len(list.Items) == 0, err
	})
}

// TestPage applies what docs/drain.md shows; the API server refuses what cannot be, and a
// change of what is drained.
func TestPage(t *testing.T) {
	page := func(name string) (string, error) {
		out, err := cluster.Kubectl(t.Context(), "apply", "-f", filepath.Join("../../../docs/drain", name)).CombinedOutput()
		return string(out), err
	}
	if out, err := page("firmware.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := page("typo.yaml")
	if err == nil || !strings.Contains(out, "evictionsPerMinute") || !strings.Contains(out, "deadline.action") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, patch := range []string{
		`{"spec":{"selector":{"pool":"node-2"}}}`, `{"spec":{"cordon":{"key":"example.com/other"}}}`,
		`{"spec":{"selector":null,"devices":[{"driver":"a.example.com","pool":"p","device":"d"}]}}`,
		`{"spec":{"deadline":{"time":"2036-01-01T00:00:00Z"}}}`, `{"spec":{"order":["Age"]}}`,
	} {
		out, err := cluster.Kubectl(t.Context(), "patch", "devicedrain", "node-1-firmware", "--type=merge", "-p", patch).CombinedOutput()
		if err == nil {
			t.Errorf("%s: %s", patch, out)
		}
	}
	s := site{T: t}
	s.wait("node-1-firmware", "Blocked=True "+v1alpha1.BlockedNoDevices)
	if out, err := cluster.Kubectl(t.Context(), "get", "ddrain").CombinedOutput(); err != nil || !strings.Contains(string(out), "NoDevices") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := cluster.Kubectl(t.Context(), "delete", "devicedrain", "node-1-firmware").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
