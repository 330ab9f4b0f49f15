package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serving is a running "dra-steward serve" with what it logged about its addresses.
type serving struct {
	Address, Health, Metrics string

	certDir string
	stop    context.CancelFunc
	// code is the exit code, log what was logged after the addresses.
	code chan int
	log  chan string
}

func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &serving{certDir: t.TempDir(), stop: stop, code: make(chan int, 1), log: make(chan string, 1)}
	args = append([]string{"serve", "--cert-dir", s.certDir, "--self-signed", "127.0.0.1", "--address", "127.0.0.1:0",
		"--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"}, args...)
	reader, writer := io.Pipe()
	go func() {
		s.code <- cli.Run(ctx, args, cmdutil.Streams{In: strings.NewReader(""), Out: io.Discard, Err: writer})
		writer.Close()
	}()
	lines := bufio.NewReader(reader)
	for s.Address == "" {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("the server ended before it served: %v, %s", err, line)
		}
		if bytes.Contains(line, []byte("serving admission requests")) {
			if err := json.Unmarshal(line, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		s.log <- string(rest)
	}()
	return s
}

// get polls until the answer has the status.
func get(t *testing.T, url string, status int) string {
	t.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get(url)
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode == status {
				return string(body)
			}
			err = fmt.Errorf("status %d: %s", response.StatusCode, body)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: no status %d within 2 minutes: %v", url, status, err)
		}
	}
}

// TestServe starts the webhook as a person does, asks it, and ends it.
func TestServe(t *testing.T) {
	s := serve(t, "--shutdown-delay", "6s", "--log-level", "debug")
	get(t, "http://"+s.Health+"/healthz", http.StatusOK)
	get(t, "http://"+s.Health+"/readyz", http.StatusOK)

	answer := s.review(t)
	if !strings.Contains(answer, `"allowed":false`) || !strings.Contains(answer, "request-tolerations-max") {
		t.Errorf("17 tolerations: %s", answer)
	}
	for _, line := range []string{
		`dra_steward_admission_answers_total{endpoint="validate",kind="ResourceClaim",operation="CREATE",verdict="denied"} 1`,
		"\ndra_steward_webhook_ready 1\n", "go_goroutines ", "process_resident_memory_bytes ",
	} {
		if metrics := get(t, "http://"+s.Metrics+"/metrics", http.StatusOK); !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}

	s.stop()
	get(t, "http://"+s.Health+"/readyz", http.StatusInternalServerError)
	get(t, "http://"+s.Health+"/healthz", http.StatusOK)
	if metrics := get(t, "http://"+s.Metrics+"/metrics", http.StatusOK); !strings.Contains(metrics, "\ndra_steward_webhook_ready 0\n") {
		t.Error("while it stops, the metric says that it is ready")
	}
	if answer := s.review(t); !strings.Contains(answer, `"allowed":false`) {
		t.Errorf("while it stops: %s", answer)
	}
	if code := <-s.code; code != cmdutil.ExitClean {
		t.Errorf("exit code %d", code)
	}
	if log := <-s.log; !strings.Contains(log, `"msg":"decision","verdict":"denied"`) || !strings.Contains(log, `"user":"jane"`) || !strings.Contains(log, "shutting down") {
		t.Errorf("log:\n%s", log)
	}
}

// review asks about a claim with 17 tolerations.
func (s *serving) review(t *testing.T) string {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(s.certDir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	var list []string
	for i := range 17 {
		list = append(list, fmt.Sprintf(`{"key": "example.com/fault-%d", "operator": "Exists", "effect": "NoSchedule"}`, i))
	}
	tolerations := strings.Join(list, ",")
	body := fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
		"uid": "1", "operation": "CREATE", "userInfo": {"username": "jane"},
		"kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"},
		"object": {"metadata": {"name": "some"}, "spec": {"devices": {"requests": [
			{"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": [%s]}}]}}}}}`, tolerations)
	response, err := (&http.Client{Transport: transport}).Post("https://"+s.Address+"/validate", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// TestServeTwice: an address in use is an error at once, whatever the delay.
func TestServeTwice(t *testing.T) {
	s := serve(t, "--shutdown-delay", "0s")
	for _, flag := range []string{"--address", "--health-address", "--metrics-address"} {
		var log bytes.Buffer
		args := []string{"serve", "--cert-dir", s.certDir, "--address", "127.0.0.1:0", "--health-address=", "--metrics-address=",
			"--shutdown-delay", "1h", flag, s.Health}
		code := cli.Run(t.Context(), args, cmdutil.Streams{Out: io.Discard, Err: &log})
		if code != cmdutil.ExitFailed || !strings.Contains(log.String(), flag+": ") || !strings.Contains(log.String(), "address already in use") {
			t.Errorf("%s: exit code %d\n%s", flag, code, log.String())
		}
	}
	s.stop()
	if code := <-s.code; code != cmdutil.ExitClean {
		t.Errorf("exit code %d", code)
	}
}
