package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// record in the environment writes the output of TestDemo into the page.
const record = "DRA_STEWARD_RECORD"

// TestDemo runs the demonstration to its end: all scenes, in order, without a line of a log,
// and as docs/tutorial.md shows it.
func TestDemo(t *testing.T) {
	d := startDemo(t)
	if code := d.end(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, &d.text)
	}
	rest := d.text.String()
	for _, scene := range []string{
		"envtest: using kube-apiserver 1.37", "$ dra-steward lint ", "[request-tolerations-max]",
		"$ kubectl create -f examples/denied/", "dra-steward rule DRA-RULE-001",
		"$ dra-steward drain ", "Drained, 1 evicted", "$ dra-steward why pod/training-1", "dra-steward drain --cancel gpu-1-sick", "blocked BudgetBlocked",
		"$ dra-steward drain --cancel gpu-1-sick", "pod/training-1 condition met",
		"$ dra-steward why pod/large", "the selector asks for H100", "$ kubectl apply ", "pod/large condition met", "patch/gpu-2-is-an-h100",
		"make demo KEEP=1", commands,
	} {
		_, after, found := strings.Cut(rest, scene)
		if !found {
			t.Errorf("%q is missing, or not in its place", scene)
			continue
		}
		rest = after
	}
	expectNoLog(t, d.text.String())
	expectShortDenial(t, d.text.String())
	expectRecorded(t, shown(d.text.String()))
	if t.Failed() {
		t.Log(d.text.String())
	}
	d.expectNoTrace(t)
}

// logLine matches what a person is not to read: lines of klog, of structured logs, and
// stacks.
var logLine = regexp.MustCompile(`(?m)^\s*([IWEF]\d{4} |\{"time"|time=|goroutine \d|panic:|\S+\.go:\d+|>\s+goroutine).*|.*log\.SetLogger.*`)

func expectNoLog(t *testing.T, text string) {
	t.Helper()
	for _, line := range logLine.FindAllString(text, -1) {
		t.Errorf("a line of a log or a stack: %s", line)
	}
}

func TestLogLine(t *testing.T) {
	for _, line := range []string{
		`W1122 22:09:59.123456   12345 warnings.go:70] affects 1 device`, `goroutine 1 [running]:`, `>  goroutine 44 [running]:`,
		`	/src/controller-runtime/pkg/log/log.go:60 +0xcd`, `[controller-runtime] log.SetLogger(...) was never called; logs will not be displayed.`,
		`{"time":"2026-11-22T22:09:59Z","level":"INFO"}`, `time=2026-11-22T22:09:59Z level=INFO`,
	} {
		if !logLine.MatchString("\n" + line + "\n") {
			t.Errorf("%q passes", line)
		}
	}
}

// expectShortDenial fails for a denial of more than five lines, the command included.
func expectShortDenial(t *testing.T, text string) {
	t.Helper()
	_, denial, _ := strings.Cut(text, "$ kubectl create -f ")
	denial, _, _ = strings.Cut(denial, "\n\n")
	if n := strings.Count(denial, "\n") + 1; n > 5 {
		t.Errorf("the denial has %d lines, want at most 5:\n%s", n, denial)
	}
}

// What differs from run to run.
var (
	progress  = regexp.MustCompile(`(?m)^  \d\d:\d\d:\d\d (.*)\n`)
	generated = regexp.MustCompile(`-gpu-[a-z0-9]{5}\b`)
	hashed    = regexp.MustCompile(`(drain(?:-gpu-1)?-sick)-[0-9a-f]{10}`)
	warnings  = regexp.MustCompile(`(?m)(^  Warning: .*\n){2,}`) // in the order in which webhooks answer
)

// shown is the part of the output that the page shows, without what differs from run to
// run: of the progress of a drain only the last line.
func shown(text string) string {
	_, text, _ = strings.Cut(text, "\n\n")
	text, _, _ = strings.Cut(text, "\nDone.")
	return steady(text)
}

// steady replaces what differs from run to run.
func steady(text string) string {
	text = progress.ReplaceAllStringFunc(text, func(line string) string {
		if said := progress.FindStringSubmatch(line)[1]; strings.HasPrefix(said, "Drained") {
			return "  10:15:09 " + said + "\n"
		}
		return ""
	})
	text = warnings.ReplaceAllStringFunc(text, func(lines string) string {
		return strings.Join(slices.Sorted(strings.Lines(lines)), "")
	})
	text = hashed.ReplaceAllString(text, "${1}-507ad06c4f")
	return strings.TrimSpace(generated.ReplaceAllString(text, "-gpu-4xk7p"))
}

// expectRecorded compares with the record in docs/tutorial.md, or writes it.
func expectRecorded(t *testing.T, want string) {
	t.Helper()
	page, err := doctest.Read(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(page.Blocks, func(b doctest.Block) bool { return b.Options["from"] == "demo" })
	if at < 0 {
		t.Fatal("docs/tutorial.md has no block from=demo")
	}
	block := page.Blocks[at]
	if strings.TrimSpace(block.Text) == want {
		return
	}
	if os.Getenv(record) == "" {
		t.Errorf("docs/tutorial.md shows another demonstration; %s=yes writes this one into it:\n%s", record, cmp.Diff(strings.TrimSpace(block.Text), want))
		return
	}
	text, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tutorial, []byte(strings.Replace(string(text), block.Text, want+"\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestInterrupted interrupts the demonstration while the scheduler works.
func TestInterrupted(t *testing.T) {
	d := startDemo(t)
	d.readTo(t, "A device gets sick")
	d.interrupt(t)
	if code := d.end(t); code != 130 {
		t.Errorf("exit code %d, want 130:\n%s", code, &d.text)
	}
	if !strings.Contains(d.text.String(), "everything is stopped and removed") {
		t.Errorf("it does not say that everything is removed:\n%s", &d.text)
	}
	d.expectNoTrace(t)
}

// TestKeep leaves the demonstration running and types the commands that it prints.
func TestKeep(t *testing.T) {
	d := startDemo(t, "--keep")
	d.readTo(t, "  export KUBECONFIG=")
	d.readTo(t, "  dra-steward drain")
	_, typed, _ := strings.Cut(d.text.String(), "type:\n\n")
	if !strings.HasSuffix(typed, commands) {
		t.Errorf("it ends with %q", typed)
	}
	for _, test := range []struct{ line, want string }{
		{"dra-steward devices", "default/large"},
		{"dra-steward why pod/training-1", "allocated: gpu.example.com/node-1/gpu-1"},
		{"dra-steward drain node/node-1 --dry-run", "cordon gpu.example.com/node-1/gpu-2"},
	} {
		if !strings.Contains(typed, "  "+test.line+"\n") {
			t.Errorf("%s is not printed", test.line)
		}
		export, _, _ := strings.Cut(typed, "\n")
		shell := exec.CommandContext(t.Context(), "sh", "-c", export+"\n"+test.line)
		shell.Env = append(os.Environ(), "HOME="+t.TempDir(), actAsDemo+"=yes")
		if out, _ := shell.CombinedOutput(); !strings.Contains(string(out), test.want) {
			t.Errorf("%s: no %q in\n%s", test.line, test.want, out)
		}
	}
	d.interrupt(t)
	if code := d.end(t); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, &d.text)
	}
	d.expectNoTrace(t)
}
