package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// A process is the program that runs for long.
type process struct {
	name string
	log  string
	// metrics is the address of its metrics.
	metrics string
	command *exec.Cmd
	// ready is how long it took until /readyz answered, leads until it led.
	ready, leads time.Duration
	// ended is closed when it has ended.
	ended chan struct{}
}

// begin starts the program with a limit of memory, and waits until it is ready. The test ends it.
func begin(t *testing.T, program, name, health string, limit int64, args, env []string) *process {
	t.Helper()
	p := &process{name: name, ended: make(chan struct{}), log: filepath.Join(t.TempDir(), name+".log"), command: testmemory.Command(t, limit, program, args...)}
	log, err := os.Create(p.log)
	must(t, err)
	p.command.Env = append([]string{"HOME=/nonexistent"}, env...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	must(t, p.command.Start())
	go func() {
		_ = p.command.Wait() // it is told to end
		log.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(30 * time.Second):
			_ = p.command.Process.Kill()
		}
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.end())
		}
	})
	eventually(t, name+" is ready", func(ctx context.Context) error { return answers(ctx, "http://"+health+"/readyz") })
	p.ready = time.Since(started)
	if name == "controller" {
		eventually(t, "the controller leads", func(context.Context) error {
			text, err := os.ReadFile(p.log)
			if err == nil && !bytes.Contains(text, []byte(`"msg":"leading"`)) {
				err = errors.New("no such line in its log")
			}
			return err
		})
		p.leads = time.Since(started)
	}
	return p
}

// end is the end of the log.
func (p *process) end() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// settle waits until the process uses less than a twentieth of a core, a minute at most.
func (p *process) settle(t *testing.T) {
	t.Helper()
	settle(t, p.name, p.command.Process.Pid)
}

func settle(t *testing.T, name string, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if idle(t, pid, 2*time.Second) < 5 {
			return
		}
	}
	t.Logf("%s still computes after a minute", name)
}

// idle is the share of a core that the process uses, in per cent.
func (p *process) idle(t *testing.T, during time.Duration) float64 {
	t.Helper()
	return idle(t, p.command.Process.Pid, during)
}

func idle(t *testing.T, pid int, during time.Duration) float64 {
	t.Helper()
	before, at := cpu(t, pid), time.Now()
	<-time.After(during)
	return 100 * (cpu(t, pid) - before).Seconds() / time.Since(at).Seconds()
}

// cpu is the time that a process has computed.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // user and system
		n, err := strconv.ParseInt(field, 10, 64)
		must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// rss and peak are what a process holds in RAM and the most that it held, in MiB.
func rss(t *testing.T, pid int) float64  { return memory(t, pid, "VmRSS") }
func peak(t *testing.T, pid int) float64 { return memory(t, pid, "VmHWM") }

func memory(t *testing.T, pid int, key string) float64 {
	t.Helper()
	bytes, err := testmemory.Of(pid, key)
	must(t, err)
	return float64(bytes) / (1 << 20)
}

// component finds the process of the control plane that works in a folder.
func component(t *testing.T, binary, dir string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		first, rest, _ := bytes.Cut(text, []byte{0})
		if filepath.Base(string(first)) == binary && bytes.Contains(rest, []byte(dir)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			must(t, err)
			return pid
		}
	}
	t.Fatalf("%s does not run", binary)
	return 0
}
