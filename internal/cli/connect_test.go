package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
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

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cli/examples"
)

// connecting are the runs in the examples of every command that connects to a cluster. Files are those of
// testdata.
func connecting(t *testing.T) (all [][]string) {
	t.Helper()
	of := examples.Of(Command(cmdutil.Streams{}), func(c *cobra.Command) bool { return c.Flags().Lookup("context") != nil })
	if len(of) < 20 {
		t.Errorf("only %d commands connect", len(of))
	}
	for _, path := range slices.Sorted(maps.Keys(of)) {
		if len(of[path]) == 0 {
			t.Errorf("%s connects to a cluster, and has no example without --from-files and other programs", path)
		}
		for _, run := range of[path] {
			for i, word := range run {
				if i > 0 && run[i-1] == "-f" {
					run[i] = "testdata/claim.yaml"
					if name := filepath.Join("testdata", word); slices.Contains([]string{"class.yaml", "patch.yaml"}, word) {
						run[i] = name
					}
				}
			}
			if !slices.Contains(run, "--config") { // which needs a file of the site
				all = append(all, run)
			}
		}
	}
	return all
}

// oneOfEach are the first of the runs of each command, and of each with another flag after the command, such as
// --list.
func oneOfEach(runs [][]string) (some [][]string) {
	seen := map[string]bool{}
	for _, run := range runs {
		c, args, err := Command(cmdutil.Streams{}).Find(run)
		if err != nil {
			continue // it is a run that fails then
		}
		mode := c.CommandPath()
		if len(args) > 0 && strings.HasPrefix(args[0], "--") {
			if f := c.Flags().Lookup(strings.TrimPrefix(args[0], "--")); f != nil && f.NoOptDefVal == "true" {
				mode += " " + args[0]
			}
		}
		if !seen[mode] {
			some = append(some, run)
		}
		seen[mode] = true
	}
	return some
}

// attempt runs the program and returns what it writes to standard error.
func attempt(t *testing.T, args []string) (code int, stderr string, took time.Duration) {
	t.Helper()
	var out, err bytes.Buffer
	begin := time.Now()
	code = Run(t.Context(), args, cmdutil.Streams{Out: &out, Err: &err})
	if out.Len() > 0 {
		t.Errorf("%q wrote %q", args, &out)
	}
	return code, err.String(), time.Since(begin)
}

// TestSilent: a server that accepts connections and does not answer may be busy: every command gives it
// four seconds.
func TestSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	program := filepath.Join(Program(t), "dra-steward")
	var all sync.WaitGroup
	for _, args := range oneOfEach(connecting(t)) {
		all.Go(func() {
			begin := time.Now()
			out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(args), "--server=https://"+silent.Addr().String())...).CombinedOutput()
			took := time.Since(begin)
			var exit *exec.ExitError
			want := "dra-steward: cannot connect to the API server https://" + silent.Addr().String() + ": no answer"
			if !errors.As(err, &exit) || exit.ExitCode() != cmdutil.ExitFailed || !strings.HasPrefix(string(out), want) || bytes.Count(out, []byte("\n")) != 1 {
				t.Errorf("%q: %v, want exit code 2 with one line that begins with %q:\n%s", args, err, want, out)
			}
			if took < 4*time.Second || took > time.Minute { // all start at the same time
				t.Errorf("%q took %v", args, took)
			}
		})
	}
	all.Wait()
}

// Program builds the program, and returns the folder that has it.
func Program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../../cmd/dra-steward").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestUnreachable: every command reports at once that it cannot use an API server.
func TestUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	wrong := httptest.NewUnstartedServer(http.NotFoundHandler())
	wrong.Config.ErrorLog = log.New(io.Discard, "", 0)
	wrong.StartTLS()
	defer wrong.Close()
	unencrypted := httptest.NewServer(http.NotFoundHandler())
	defer unencrypted.Close()
	for name, tt := range map[string]struct {
		server, want string
		within       time.Duration
	}{
		"refused":      {"https://" + closed.Addr().String(), "connection refused", 2 * time.Second},
		"unknown host": {"https://nowhere.invalid:6443", `cannot resolve host "nowhere.invalid"`, 2 * time.Second},
		"certificate":  {wrong.URL, "its certificate is signed by an unknown authority", 2 * time.Second},
		"black hole":   {"https://" + blackHole(t), "no answer: check the address in the kubeconfig, and the network", 2 * time.Second},
		"no TLS":       {strings.Replace(unencrypted.URL, "http:", "https:", 1), "it does not use TLS", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			runs := connecting(t)
			if name != "refused" {
				runs = oneOfEach(runs)
			}
			for _, args := range runs {
				code, stderr, took := attempt(t, append(slices.Clone(args), "--server="+tt.server))
				want := "dra-steward: cannot connect to the API server " + tt.server + ": " + tt.want
				if code != cmdutil.ExitFailed || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
					t.Errorf("%q: exit code %d, want 2 with one line that begins with %q:\n%s", args, code, want, stderr)
				}
				// What a command does before it connects, such as compiling policies, is not
				// counted: it takes as long with a server that refuses at once.
				for range 3 { // on a busy machine the best of some counts
					if took <= tt.within {
						break
					}
					_, _, before := attempt(t, append(slices.Clone(args), "--server=https://"+closed.Addr().String()))
					_, _, took = attempt(t, append(slices.Clone(args), "--server="+tt.server))
					took -= before
				}
				if took > tt.within {
					t.Errorf("%q took %v", args, took)
				}
			}
		})
	}
}

// blackHole is an address that drops the packets of new connections: a listener whose queue is full.
func blackHole(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := errors.Join(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(socket, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 10 {
		conn, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return address
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the queue of the listener does not fill")
	return ""
}

// TestSlowCredentials: a plugin takes its time, and the error comes soon after its credentials.
func TestSlowCredentials(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, address := range map[string]string{"refused": closed.Addr().String(), "black hole": blackHole(t)} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, given := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "given")
			text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
"clusters": [{"name": "a", "cluster": {"server": "https://%s"}}],
"users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "sh", "args": ["-c", %q]}}}]}`, address,
				`sleep 6; touch `+given+`; echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "a"}}'`)
			if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stderr, took := attempt(t, []string{"devices", "--kubeconfig=" + kubeconfig})
			ended := time.Now()
			at, err := os.Stat(given)
			if err != nil {
				t.Fatal(err)
			}
			// A kernel tries for longer than a minute to connect.
			if after := ended.Sub(at.ModTime()); after > 20*time.Second || took < 6*time.Second {
				t.Errorf("it took %v, %v after the credentials", took, after)
			}
			if code != cmdutil.ExitFailed || !strings.HasPrefix(stderr, "dra-steward: cannot connect to the API server https://"+address) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}

// TestSlowServer: a server that answers the first request late is no error.
func TestSlowServer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(5 * time.Second):
		case <-r.Context().Done():
		}
		http.Error(w, "not now", http.StatusTeapot)
	}))
	defer server.Close()
	_, stderr, took := attempt(t, []string{"devices", "--server=" + server.URL, "--insecure-skip-tls-verify"})
	if strings.Contains(stderr, "cannot connect") || took < 5*time.Second {
		t.Errorf("after %v: %s", took, stderr)
	}
}

// TestKubeconfig: every command finds its cluster by the rules of kubectl.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing listens at these addresses: the error names the one that was tried.
	write("a", "apiVersion: v1\nkind: Config\nclusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: me, user: {token: x}}]\n")
	write("b", "apiVersion: v1\nkind: Config\nclusters: [{name: two, cluster: {server: 'https://127.0.0.1:2'}}]\n"+
		"contexts: [{name: one, context: {cluster: one, user: me}}, {name: two, context: {cluster: two, user: me}}]\ncurrent-context: two\n")
	write("c", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:3'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	list := filepath.Join(dir, "a") + string(os.PathListSeparator) + filepath.Join(dir, "b")
	for name, tt := range map[string]struct {
		list  string
		flags []string
		want  string
	}{
		"list":         {list, nil, "127.0.0.1:2: connection refused"},
		"context":      {list, []string{"--context=one"}, "127.0.0.1:1: connection refused"},
		"cluster":      {list, []string{"--cluster=one"}, "127.0.0.1:1: connection refused"},
		"no context":   {list, []string{"--context=three"}, "three"},
		"flag":         {filepath.Join(dir, "a"), []string{"--kubeconfig=" + filepath.Join(dir, "c")}, "127.0.0.1:3: connection refused"},
		"missing":      {list, []string{"--kubeconfig=/does/not/exist"}, "/does/not/exist"},
		"missing list": {"/does/not/exist", nil, "no kubeconfig found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.list)
			for _, args := range connecting(t) {
				code, stderr, _ := attempt(t, append(slices.Clone(args), tt.flags...))
				if code != cmdutil.ExitFailed || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
					t.Errorf("%q: exit code %d, want 2 with one line that has %q:\n%s", args, code, tt.want, stderr)
				}
			}
		})
	}
}
