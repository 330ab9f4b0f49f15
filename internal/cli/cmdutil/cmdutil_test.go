package cmdutil

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0": 0, "0d": 0,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "1d2d", "1d-3h", "1d24h", "-1d", "7 d", "1w", "999999999999d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestDryRun(t *testing.T) {
	var d DryRun
	for text, want := range map[string]DryRun{"none": "", "client": DryRunClient, "server": DryRunServer} {
		if err := d.Set(text); err != nil || d != want || d.String() != text {
			t.Errorf("%s: %q, %v", text, d, err)
		}
	}
	if err := d.Set("true"); err == nil || !strings.Contains(err.Error(), "none, client, server") {
		t.Error(err)
	}
}

// TestProgress: a short wait shows nothing; a long one shows the newest text, and leaves no
// line behind.
func TestProgress(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Second: "", 2100 * time.Millisecond: "\r\x1b[Kreading pods: 500 (2 s)\r\x1b[K"} {
		synctest.Test(t, func(t *testing.T) {
			var terminal bytes.Buffer
			p := Streams{Terminal: &terminal}.Progress("connecting")
			p.Say("reading %s: %d", "pods", 500)
			<-time.After(wait)
			p.End()
			p.End()
			if got := terminal.String(); got != want {
				t.Errorf("after %v: %q, want %q", wait, got, want)
			}
		})
	}
	var none *Progress = Streams{}.Progress("connecting")
	none.Say("nothing")
	none.Clear()
	none.End()
}

// A sharedTerminal has two writers: a progress, and the command that goes on meanwhile.
type sharedTerminal struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (s *sharedTerminal) Write(data []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.buffer.Write(data)
}

// written returns what was written since the last call.
func (s *sharedTerminal) written() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	defer s.buffer.Reset()
	return s.buffer.String()
}

// TestProgressMakesRoom: what a command writes meanwhile has a line for itself, and the progress goes on
// below it.
func TestProgressMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal sharedTerminal
		said, err := While(Streams{Terminal: &terminal}, "waiting", func() (string, error) {
			<-time.After(2100 * time.Millisecond)
			return "done", nil
		})
		if got, want := terminal.written(), "\r\x1b[Kwaiting (2 s)\r\x1b[K"; said != "done" || err != nil || got != want {
			t.Errorf("%q, %v, %q, want %q", said, err, got, want)
		}
		p := Streams{Terminal: &terminal}.Progress("waiting")
		<-time.After(2100 * time.Millisecond)
		p.Clear()
		fmt.Fprintln(&terminal, "one")
		p.Clear()
		fmt.Fprintln(&terminal, "two")
		<-time.After(200 * time.Millisecond)
		p.End()
		if got, want := terminal.written(), "\r\x1b[Kwaiting (2 s)\r\x1b[Kone\ntwo\n\r\x1b[Kwaiting (2 s)\r\x1b[K"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestProgressAfterLogin: a credential plugin has the terminal for itself, however long it takes.
func TestProgressAfterLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal bytes.Buffer
		login := make(chan struct{})
		p := Streams{Terminal: &terminal}.progress("connecting", login)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if terminal.Len() > 0 {
			t.Errorf("%q while the user logs in", &terminal)
		}
		close(login)
		<-time.After(2100 * time.Millisecond)
		p.End()
		if want := "\r\x1b[Kconnecting (2 s)\r\x1b[K"; terminal.String() != want {
			t.Errorf("%q, want %q", &terminal, want)
		}
		p = Streams{Terminal: &terminal}.progress("connecting", make(chan struct{}))
		p.End() // of a login that failed
	})
}

// TestBusy: a command says why it waits, once, when the API server asks it to wait long.
func TestBusy(t *testing.T) {
	wait := "1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", wait)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var client Client
	command := &cobra.Command{}
	client.AddFlags(command)
	if err := command.Flags().Set("kubeconfig", file); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	config, err := client.Config(Streams{Err: &errs})
	if err != nil {
		t.Fatal(err)
	}
	for _, wait = range []string{"1", "16", "16"} {
		transport, err := rest.HTTPClientFor(config) // a command has several clients
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if want := "Warning: the API server has too many requests of this user and asks to wait for 16s\n"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
}
