package envtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// runInVariable makes the test binary act as a package whose tests never end:
// its value is the folder for the cluster.
const runInVariable = "DRA_STEWARD_ENVTEST_TEST_DIR"

const readyLine = "the tests run"

// endless stands for the tests of a package.
type endless struct{}

func (endless) Run() int {
	fmt.Println(readyLine)
	select {}
}

func TestMain(m *testing.M) {
	dir := os.Getenv(runInVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	os.Exit(envtest.Main(endless{}, envtest.Options{ControllerManager: true, Dir: dir}, func(*envtest.Cluster) {}))
}

// runEndless starts such a package and returns when its tests run.
func runEndless(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), runInVariable+"="+dir)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != readyLine {
	}
	if lines.Text() != readyLine {
		t.Fatalf("the helper ended before its tests ran: %v", cmd.Wait())
	}
	if len(processesOf(t, dir)) < 3 {
		t.Fatalf("only %s run", processesOf(t, dir))
	}
	return cmd
}

func TestMainInterrupted(t *testing.T) {
	dir := t.TempDir()
	cmd := runEndless(t, dir)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit code 130", err)
	}
	expectNoTrace(t, dir)
}

func TestMainKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := runEndless(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the watchdog has cleaned up", func(context.Context) (bool, error) {
		left, err := filepath.Glob(filepath.Join(dir, "run-*"))
		return len(left) == 0, err
	})
	expectNoTrace(t, dir)
}

// TestLeftovers kills the watchdog too: the next start cleans up.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	cmd := runEndless(t, dir)
	left, err := filepath.Glob(filepath.Join(dir, "run-*"))
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	killChildren(t, cmd.Process.Pid, "/bin/sh")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(processesOf(t, dir)) == 0 {
		t.Fatal("the API server has not survived: the check below would prove nothing")
	}
	if err := start(t, envtest.Options{Dir: dir}).Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next start has cleaned up", func(context.Context) (bool, error) {
		return len(processesOf(t, dir)) == 0, nil // a killed process may take a moment
	})
	expectNoTrace(t, dir)
}

// killChildren kills the children of a process whose command starts so.
func killChildren(t *testing.T, parent int, command string) {
	t.Helper()
	for _, line := range childrenOf(t, parent) {
		var pid int
		var name string
		if _, err := fmt.Sscan(line, &pid, &name); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if name == command {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestStartCancelled cancels the context at several points of a start.
func TestStartCancelled(t *testing.T) {
	for _, process := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		t.Run(process, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer cancel()
				_ = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
					return strings.Contains(strings.Join(processesOf(t, dir), " "), process+" --"), nil
				})
			}()
			_, err := envtest.Start(ctx, envtest.Options{ControllerManager: true, Nodes: []string{"a"}, Dir: dir, Output: t.Output()})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Start returns %v", err)
			}
			expectNoTrace(t, dir)
		})
	}
}

func TestComponentFails(t *testing.T) {
	bad := map[string][]string{"no-such-flag": {"1"}}
	for name, o := range map[string]envtest.Options{
		"kube-apiserver":          {APIServerArgs: bad},
		"kube-controller-manager": {ControllerManager: true, ControllerManagerArgs: bad},
		"kube-scheduler":          {Scheduler: true, SchedulerArgs: bad},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dir = t.TempDir()
			_, err := envtest.Start(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
				t.Errorf("%v; want an error with the end of the log", err)
			}
			expectNoTrace(t, o.Dir)
		})
	}
}
