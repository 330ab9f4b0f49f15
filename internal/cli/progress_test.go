package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// A terminal is one that a test reads.
type terminal struct {
	slave *os.File
	mutex sync.Mutex
	text  bytes.Buffer
	// seen is closed when the text has what is waited for.
	seen chan struct{}
	read sync.WaitGroup
}

// openTerminal returns a terminal that waits for a text.
func openTerminal(t *testing.T, want string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var number, unlock int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := &terminal{slave: slave, seen: make(chan struct{})}
	found.read.Go(func() {
		defer master.Close()
		seen, buffer := false, make([]byte, 4096)
		for {
			n, err := master.Read(buffer) // an error when the last user of the slave has closed it
			found.mutex.Lock()
			found.text.Write(buffer[:n])
			has := strings.Contains(found.text.String(), want)
			found.mutex.Unlock()
			if has && !seen {
				seen = true
				close(found.seen)
			}
			if err != nil {
				return
			}
		}
	})
	return found
}

// close ends the terminal and returns what was written to it.
func (s *terminal) close() string {
	_ = s.slave.Close()
	s.read.Wait()
	return s.text.String()
}

// quick are commands whose requests are few and small, so that they show no progress, with the reason.
func quick() map[string]string {
	return map[string]string{
		"roll": "it reads no list, but for a plan", "roll nodes": "the same", "console": "it says where it serves, and reads then",
		"acknowledge": "it reads drains", "report": "it first reads the configuration of a release",
	}
}

func TestOnTerminal(t *testing.T) {
	program := filepath.Join(Program(t), "dra-steward")
	t.Run("progress", func(t *testing.T) { holdProgress(t, program) })
	t.Run("login", func(t *testing.T) { holdLogin(t, program) })
}

// holdProgress: a command that waits for an API server for more than two seconds says so on a terminal, and
// removes that before it says anything else.
func holdProgress(t *testing.T, program string) {
	const begin = "\r\x1b[K"
	var all sync.WaitGroup
	for _, args := range oneOfEach(connecting(t)) {
		if quick()[args[0]] != "" || slices.Contains(args, "--cancel") {
			continue
		}
		all.Go(func() {
			screen := openTerminal(t, begin)
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-screen.seen:
				case <-r.Context().Done():
				case <-time.After(3 * time.Minute): // a command that shows nothing
				}
				http.Error(w, "not now", http.StatusTeapot)
			}))
			defer server.Close()
			c := exec.CommandContext(t.Context(), program, append(slices.Clone(args), "--server="+server.URL, "--insecure-skip-tls-verify")...)
			c.Env = append(os.Environ(), "TERM=xterm")
			c.Stderr = screen.slave
			_ = c.Run() // which fails, because the API server does
			shown := screen.close()
			text, rest, _ := strings.Cut(strings.TrimPrefix(shown, begin), " s)")
			if !strings.HasPrefix(shown, begin) || !strings.Contains(text, "ing ") || !strings.Contains(rest, begin+"dra-steward: ") {
				t.Errorf("%q: %q", args, shown)
			}
		})
	}
	all.Wait()
}

// holdLogin: a credential plugin that takes its time is not cut off, has the terminal for itself, and the
// command succeeds after it.
func holdLogin(t *testing.T, program string) {
	server := oneEach(t)
	dir := t.TempDir()
	kubeconfig, plugin := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "login")
	script := `#!/bin/sh
printf 'code: ' >&2
sleep 6
echo granted >&2
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "a"}}'
`
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
"clusters": [{"name": "a", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
"users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "IfAvailable", "command": %q}}}]}`, server.URL, plugin)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, args := range [][]string{{"drain", "--list"}, {"taint", "--list"}} {
		all.Go(func() {
			screen := openTerminal(t, "granted")
			var out bytes.Buffer
			c := exec.CommandContext(t.Context(), program, append(args, "-o=name", "--kubeconfig="+kubeconfig)...)
			c.Env = append(os.Environ(), "TERM=xterm")
			c.Stdin, c.Stdout, c.Stderr = screen.slave, &out, screen.slave
			if err := c.Run(); err != nil || !strings.HasSuffix(out.String(), "/one\n") {
				t.Errorf("%q: %v\n%s", args, err, &out)
			}
			if shown := screen.close(); shown != "code: granted\r\n" {
				t.Errorf("%q: the terminal has %q", args, shown)
			}
		})
	}
	all.Wait()
}
