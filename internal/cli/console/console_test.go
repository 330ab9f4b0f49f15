package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	reportcmd "github.com/dra-steward/dra-steward/internal/cli/report"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/report"
)

// pages serves files as the command does, and returns a function that gets a page.
func pages(t *testing.T, files ...string) func(address string) string {
	t.Helper()
	o := options{release: "dra-steward"}
	o.read.AddFlags(&cobra.Command{})
	o.read.Files = files
	f, err := o.feed(t.Context(), cmdutil.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return pagesOf(t, f.server)
}

// pagesOf returns a function that gets a page of a server.
func pagesOf(t *testing.T, server *console.Server) func(address string) string {
	gate := console.NewGate(8080)
	handler := server.Handler(gate)
	get := func(address string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", address, nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:1"
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	first := get(strings.TrimPrefix(gate.URL("127.0.0.1"), "http://127.0.0.1:8080"))
	return func(address string) string {
		w := get(address, first.Result().Cookies()...)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", address, w.Code, w.Body)
		}
		return w.Body.String()
	}
}

// TestReport: the page of the report has the numbers of the command, and makes a report only if it is
// asked to.
func TestReport(t *testing.T) {
	files := []string{"../../../docs/taints/cluster.yaml", "../../../docs/report/rules.yaml", "../../../examples/denied"}
	var out bytes.Buffer
	command := reportcmd.ReportCommand(cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard})
	command.SetArgs([]string{"-o", "json", "--from-files", strings.Join(files, ",")})
	command.SilenceErrors, command.SilenceUsage = true, true
	if err := command.ExecuteContext(t.Context()); err != nil && !errors.Is(err, cmdutil.ErrFindings) {
		t.Fatal(err)
	}
	var want report.Report
	if err := json.Unmarshal(out.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	get := pages(t, files...)
	if body := get("/report"); strings.Contains(body, "data-step") || !strings.Contains(body, "Make the report") {
		t.Errorf("a report is made without being asked for:\n%s", body)
	}
	body := get("/report?make=yes")
	if get("/report") == "" || !strings.Contains(get("/report"), "Make it again") {
		t.Error("the report is not kept")
	}
	refused := 0
	for i, step := range want.Steps {
		_, row, found := strings.Cut(body, fmt.Sprintf("<tr data-step=%q>", step.Mode))
		row, _, _ = strings.Cut(row, "</tr>")
		numbers := ""
		for _, n := range []int{step.Refused.Objects, step.Warned.Objects, step.Defaulted.Objects, len(step.Evicted)} {
			numbers += fmt.Sprintf(`<td class="number">%d</td>`, n)
		}
		if !found || !strings.Contains(row, numbers) {
			t.Errorf("step %s: %s, want %s", step.Mode, row, numbers)
		}
		refused += step.Refused.Objects
		for _, code := range step.Refused.Codes {
			if cells := fmt.Sprintf(`<td>refuses</td><td>%s</td><td class="number">%d</td>`, code.Code, len(code.Objects)); i > 0 && !strings.Contains(body, cells) {
				t.Errorf("step %s: no row %s", step.Mode, cells)
			}
		}
	}
	if refused == 0 || len(want.Holders) == 0 || len(want.Taints) == 0 || len(want.Steps) < 2 {
		t.Errorf("the report is empty: %+v", want)
	}
	for _, h := range want.Holders {
		if cells := fmt.Sprintf(`<bdi>%s</bdi></td><td class="number">%d</td><td class="number">%d</td><td class="number">%d</td>`, h.Driver, h.Devices, h.Claims, h.Pods); !strings.Contains(body, cells) {
			t.Errorf("no holder %s", cells)
		}
	}
}

// TestPolicies: the page has all policies of the library with their modes and parameters, and says
// what is not known.
func TestPolicies(t *testing.T) {
	body := pages(t, "../../../docs/taints/cluster.yaml")("/policies")
	for _, want := range []string{"DRA-TOL-001", `class="state p-deny"`, "Mode of the ladder", "Unknown: no replica of the webhook", "the requests seen by the webhook are unknown"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Count(body, " = ") < 5 {
		t.Errorf("the policies have no parameters:\n%s", body)
	}
}

// TestFailedRead: after a read that fails, pages say that they are not current until one succeeds, which
// is tried again although nothing changes.
func TestFailedRead(t *testing.T) {
	failed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}`)
			return
		}
		http.Error(w, "not now", http.StatusInternalServerError)
		select {
		case failed <- struct{}{}:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	shown, err := console.New(console.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{server: shown, first: &clusterread.Snapshot{}, streams: cmdutil.Streams{Out: io.Discard, Err: io.Discard}}
	c := &cobra.Command{}
	f.source.AddFlags(c)
	if err := c.ParseFlags([]string{"--server", server.URL, "--kubeconfig", os.DevNull}); err != nil {
		t.Fatal(err)
	}
	f.source.Watcher = clusterread.NewWatcher(io.Discard)
	get := pagesOf(t, shown)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	var again atomic.Int64
	following.Go(func() { f.follow(ctx) })
	defer following.Wait()
	defer cancel()
	once, end := context.WithCancel(ctx)
	f.source.Watcher.Every(once, time.Millisecond)
	<-failed
	end()
	following.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-failed:
				again.Add(1)
			case <-ctx.Done():
			}
		}
	})
	<-time.After(7 * checkAgain / 2)
	if page := get("/"); !strings.Contains(page, "Not current since") || !strings.Contains(page, "not now") {
		t.Error("the page says that it is current")
	}
	if again.Load() < 2 {
		t.Errorf("it is read again %d times", again.Load())
	}
}
