package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/tools/doctest"
)

// actAsDemo in the environment makes the test binary act as the program.
const actAsDemo = "DRA_STEWARD_DEMO_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(actAsDemo) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A demonstration is a run of the program with a cache and a folder for temporary
// files of its own.
type demonstration struct {
	*exec.Cmd
	output   *bufio.Scanner
	text     strings.Builder
	cache    string
	tempDir  string
	binaries string
}

// startDemo starts the program as make does, in a process group of its own, on the newest
// minor whichever is tested: that is what it shows.
func startDemo(t *testing.T, args ...string) *demonstration {
	t.Helper()
	set, err := assets.Get(t.Context(), assets.Options{Kubernetes: assets.DefaultVersion, Output: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	d := &demonstration{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...), cache: t.TempDir(), tempDir: t.TempDir()}
	if d.binaries, err = set.Dir(); err != nil {
		t.Fatal(err)
	}
	d.Dir = "../../.."
	d.Env = append(os.Environ(), actAsDemo+"=yes",
		"XDG_CACHE_HOME="+d.cache, "TMPDIR="+d.tempDir, "KUBEBUILDER_ASSETS="+d.binaries, assets.VersionVariable+"="+assets.DefaultVersion)
	d.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.Cancel = func() error { return syscall.Kill(-d.Process.Pid, syscall.SIGKILL) }
	output, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.Stderr = d.Stdout
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	d.output = bufio.NewScanner(output)
	return d
}

// readTo reads the output until a line begins so.
func (d *demonstration) readTo(t *testing.T, prefix string) {
	t.Helper()
	for d.output.Scan() {
		line := d.output.Text()
		d.text.WriteString(line + "\n")
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
	t.Fatalf("no line begins with %q: %v\n%s", prefix, d.Wait(), &d.text)
}

// end reads the rest of the output and returns the exit code.
func (d *demonstration) end(t *testing.T) int {
	t.Helper()
	for d.output.Scan() {
		d.text.WriteString(d.output.Text() + "\n")
	}
	err := d.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return d.ProcessState.ExitCode()
}

// interrupt is Ctrl-C in a terminal: it reaches the program and its children.
func (d *demonstration) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-d.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// expectNoTrace fails when the demonstration has left a process or a file.
func (d *demonstration) expectNoTrace(t *testing.T) {
	t.Helper()
	for _, folder := range []string{d.cache, d.tempDir} {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "runs.lock" {
				return err
			}
			// controller-runtime notes the ports that it has given out, and
			// forgets them by itself.
			if filepath.Base(filepath.Dir(path)) != "kubebuilder-envtest" {
				t.Errorf("left: %s", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		command, _ := os.ReadFile(file) // gone by now
		if strings.Contains(string(command), d.cache) {
			t.Errorf("still running: %q", command)
		}
	}
}

// TestDemo runs the demonstration to its end: all scenes, in order, and what the
// pages say that it prints.
func TestDemo(t *testing.T) {
	d := startDemo(t)
	if code := d.end(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, &d.text)
	}
	rest := d.text.String()
	for _, scene := range []string{
		"using kube-apiserver 1.37", "\nAdmitted\n", "\nDefaulted\n", "resource.kubernetes.io/delete-protection",
		"\nScheduled\n", "gpu.example.com/node-1/gpu-1", "\nKept\n", "\nWarned about\n", "Warning: ", "\nDenied\n", "dra-steward rule",
		"\nDone: ",
	} {
		_, after, found := strings.Cut(rest, scene)
		if !found {
			t.Errorf("%q is missing, or not in its place", scene)
			continue
		}
		rest = after
	}
	for _, line := range shownInPages(t) {
		if !strings.Contains(d.text.String(), line) {
			t.Errorf("a page shows %q, the demonstration does not", line)
		}
	}
	if t.Failed() {
		t.Log(d.text.String())
	}
	d.expectNoTrace(t)
}

// shownInPages returns the lines that our pages take from the demonstration.
func shownInPages(t *testing.T) (lines []string) {
	t.Helper()
	page, err := doctest.Read("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks {
		if block.Options["from"] == "demo" {
			lines = slices.AppendSeq(lines, strings.SplitSeq(strings.TrimSpace(block.Text), "\n"))
		}
	}
	if len(lines) == 0 {
		t.Error("README.md shows nothing of the demonstration")
	}
	return lines
}

// TestInterrupted interrupts the demonstration while the scheduler works.
func TestInterrupted(t *testing.T) {
	d := startDemo(t)
	d.readTo(t, "Scheduled")
	d.interrupt(t)
	if code := d.end(t); code != 130 {
		t.Errorf("exit code %d, want 130:\n%s", code, &d.text)
	}
	if !strings.Contains(d.text.String(), "everything is stopped and removed") {
		t.Errorf("it does not say that everything is removed:\n%s", &d.text)
	}
	d.expectNoTrace(t)
}

// TestKeep leaves the demonstration running and runs the commands that it prints.
func TestKeep(t *testing.T) {
	d := startDemo(t, "--keep")
	d.readTo(t, "  export KUBECONFIG=")
	d.readTo(t, "  /")
	_, commands, _ := strings.Cut(d.text.String(), "Still running")
	_, commands, _ = strings.Cut(commands, "\n")
	shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	shell.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := shell.CombinedOutput(); err != nil || !strings.Contains(string(out), "pod/training") {
		t.Errorf("%s\n%v\n%s", commands, err, out)
	}
	d.interrupt(t)
	if code := d.end(t); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, &d.text)
	}
	d.expectNoTrace(t)
}
