package console_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cli/report"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// example is the cluster that docs/console.md shows.
const example = "../../docs/console/cluster.yaml"

// now is when the example is looked at.
func now() time.Time { return time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC) }

// exampleInput reads the example.
func exampleInput(t *testing.T) fleet.Input {
	t.Helper()
	o := clusterread.SnapshotOptions{Source: clusterread.Source{Files: []string{example}}}
	l, err := o.Read(t.Context(), cmdutil.Streams{Out: io.Discard, Err: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	in := fleet.Input{View: l.View, Claims: l.Claims, Pods: l.Pods, Nodes: l.Nodes, Templates: l.Templates,
		Thresholds: taints.Thresholds{Thresholds: guard.DefaultThresholds(), From: "default"}}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	in.Drains = ofKind[v1alpha1.DeviceDrain](t, text, v1alpha1.DeviceDrainKind)
	in.Rolls = ofKind[v1alpha1.DeviceRoll](t, text, v1alpha1.DeviceRollKind)
	return in
}

// ofKind are the documents of a kind.
func ofKind[T any](t *testing.T, text []byte, kind string) (all []*T) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		if bytes.Contains(document, []byte("kind: "+kind+"\n")) {
			one := new(T)
			if err := yaml.Unmarshal(document, one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
	}
	return all
}

// events are those of the example.
func events(t *testing.T) func(ctx context.Context, namespace, kind, name string) ([]*corev1.Event, error) {
	t.Helper()
	o := clusterread.SnapshotOptions{Source: clusterread.Source{Files: []string{example}}}
	l, err := o.Read(t.Context(), cmdutil.Streams{Out: io.Discard, Err: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return func(_ context.Context, namespace, kind, name string) ([]*corev1.Event, error) {
		return l.EventsOfFiles(namespace, kind, name), nil
	}
}

// nodeEvents are those of the agents of nodes.
func nodeEvents(t *testing.T) func(context.Context) ([]*corev1.Event, bool, error) {
	t.Helper()
	o := clusterread.SnapshotOptions{Source: clusterread.Source{Files: []string{example}}}
	l, err := o.Read(t.Context(), cmdutil.Streams{Out: io.Discard, Err: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return func(context.Context) ([]*corev1.Event, bool, error) { return l.Events, false, nil }
}

func build(t *testing.T, in fleet.Input, before *fleet.Fleet) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Build(t.Context(), in, before)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A site is a console that listens.
type site struct {
	*console.Server
	// first is the address with the token, base the one without.
	first, base string
}

func serve(t *testing.T, f *fleet.Fleet, clock func() time.Time) site {
	t.Helper()
	return serveFor(t, f, clock, nil)
}

// serveFor serves pages with the forms of a writer, without forms if it is nil.
func serveFor(t *testing.T, f *fleet.Fleet, clock func() time.Time, writer console.Writer) site {
	t.Helper()
	reader := report.Reader{Source: clusterread.Source{Files: []string{example}}}
	s, err := console.New(console.Options{Cluster: "prod-eu-1", Now: clock, Events: events(t), NodeEvents: nodeEvents(t), Findings: []string{"ClaimNotPrepared"}, Report: reader.Report, Policies: reader.Policies, Release: "dra-steward", Writer: writer})
	if err != nil {
		t.Fatal(err)
	}
	s.Show(f)
	l, err := console.Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	port, err := console.PortOf(l)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(port)
	if writer != nil {
		g.AllowWrites()
	}
	server := console.HTTP(s.Handler(g))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return site{s, g.URL("127.0.0.1"), fmt.Sprintf("http://127.0.0.1:%d", port)}
}

// chromium is the path of the browser; the test skips without one.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("chromium is not installed: apt-get install --no-install-recommends chromium")
	return ""
}

// A tab is a page of a browser, with what its console reported.
type tab struct {
	context.Context
	t *testing.T
	// problems are errors of scripts and of the Content-Security-Policy.
	problems *problems
}

// open starts a browser with an empty page.
func open(t *testing.T) tab {
	t.Helper()
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("enable-precise-memory-info", true)})
	// The browser ends by itself, and then its profile is removed: killed, it leaves processes
	// that still write to it.
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Run(browser); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(browser, 10*time.Second)
		defer cancel()
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("the browser did not end: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(browser, 5*time.Minute)
	t.Cleanup(cancel)
	b := tab{ctx, t, &problems{}}
	chromedp.ListenTarget(ctx, b.problems.hear)
	b.run(chromedp.Navigate("about:blank"))
	return b
}

func (b tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// size sets the size of the window and the colours.
func (b tab) size(width, height int64, scheme string) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(width, height), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// eval returns the value of an expression in the page.
func eval[T any](b tab, expression string) (value T) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &value))
	return value
}

// await waits until an expression is true in the page.
func (b tab) await(expression string) {
	b.t.Helper()
	if err := chromedp.Run(b, chromedp.Poll(expression, nil, chromedp.WithPollingInterval(5*time.Millisecond), chromedp.WithPollingTimeout(20*time.Second))); err != nil {
		b.t.Fatalf("%s: %v; problems: %q", expression, err, b.problems.all())
	}
}

// drawn waits until the map shows a revision.
func (b tab) drawn(revision int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.body.dataset.drawn === "%d"`, revision))
}
