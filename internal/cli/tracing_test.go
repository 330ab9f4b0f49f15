package cli_test

import (
	"bytes"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTracing: a collector is sent what was asked, at the latest when the webhook ends; and
// one that is away stops no request.
func TestTracing(t *testing.T) {
	sent := make(chan []byte, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/traces" && r.Header.Get("Content-Type") == "application/x-protobuf" {
			sent <- body
		}
	}))
	defer collector.Close()
	s := serve(t, "--shutdown-delay", "0s", "--tracing-endpoint", collector.URL, "--tracing-sampled", "1")
	s.review(t)
	s.stop()
	if code := <-s.code; code != cmdutil.ExitClean {
		t.Fatalf("exit code %d: %s", code, <-s.log)
	}
	select {
	case body := <-sent:
		for _, part := range []string{"admission validate", "dra_steward.verdict", "denied", "request-tolerations-max", "jane", "dra-steward", "service.version", "vcs.ref.head.revision"} {
			if !bytes.Contains(body, []byte(part)) {
				t.Errorf("the span lacks %q", part)
			}
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was sent")
	}
	collector.Close()
	away := serve(t, "--shutdown-delay", "0s", "--tracing-endpoint", collector.URL, "--tracing-sampled", "1")
	if answer := away.review(t); !strings.Contains(answer, `"allowed":false`) {
		t.Errorf("without its collector: %s", answer)
	}
	away.stop()
	if code := <-away.code; code != cmdutil.ExitClean {
		t.Errorf("exit code %d", code)
	}
}

func TestTracingFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"--tracing-endpoint=collector:4318": "must be a URL such as http://collector:4318",
		"--tracing-sampled=2":               "must be 0 to 1",
	} {
		var log bytes.Buffer
		code := cli.Run(t.Context(), []string{"serve", "--cert-dir", t.TempDir(), flag}, cmdutil.Streams{Out: io.Discard, Err: &log})
		if code != cmdutil.ExitFailed || !strings.Contains(log.String(), want) {
			t.Errorf("%s: exit code %d: %s", flag, code, log.String())
		}
	}
}
