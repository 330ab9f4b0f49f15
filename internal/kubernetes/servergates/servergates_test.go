package servergates

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
)

// TestRead: the gates are those of /metrics; where that is forbidden, those of the version, and the
// source says so.
func TestRead(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			t.Errorf("%s was read", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 0` + "\n"))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		status int
		source string
		taints bool
		read   bool
	}{
		{http.StatusOK, "the metrics of the API server", false, true},
		{http.StatusForbidden, "the defaults of Kubernetes 1.36 (metrics of the API server: forbidden)", true, false},
		{http.StatusUnauthorized, "the defaults of Kubernetes 1.36 (metrics of the API server: forbidden)", true, false},
	} {
		status = tt.status
		reported, err := Read(t.Context(), client.Discovery().RESTClient())
		g := Of(reported, err, 36)
		if g.Source != tt.source || g.Read != tt.read || slices.Contains(g.Enabled(), "DRADeviceTaints") != tt.taints {
			t.Errorf("%d: %+v", tt.status, g)
		}
	}
}

// TestWatch: the gates are read again, what changes is logged once, and a server that fails for a
// while has the gates that it had.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type answer struct {
			gates gates.Reported
			err   error
		}
		var next atomic.Pointer[answer]
		server := func(enabled map[string]bool, err error) { next.Store(&answer{gates.Reported{Gates: enabled}, err}) }
		server(nil, errors.New("connection refused"))
		var logged bytes.Buffer
		log := funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{})
		w := newWatch(func(context.Context) (gates.Reported, error) { return next.Load().gates, next.Load().err }, func() int { return 36 }, log)
		expect := func(when, source string, lines int) {
			t.Helper()
			synctest.Wait()
			if g := w.Gates(36); g.Source != source {
				t.Errorf("%s: %q, want %q", when, g.Source, source)
			}
			if n := strings.Count(logged.String(), "Pods are placed with these feature gates"); n != lines {
				t.Errorf("%s: %d lines in the log, want %d:\n%s", when, n, lines, &logged)
			}
		}
		if cache.IsDone(w) {
			t.Error("done before the first answer")
		}
		expect("before", "the defaults of Kubernetes 1.36 (metrics of the API server: not read yet)", 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Run(ctx); close(done) }()
		expect("failed", "the defaults of Kubernetes 1.36 (metrics of the API server: connection refused)", 1)
		if !cache.IsDone(w) {
			t.Error("not done after an attempt that failed")
		}
		server(map[string]bool{"DRADeviceTaints": true}, nil)
		<-time.After(readSoon)
		expect("read", Source, 2)
		server(map[string]bool{"DRADeviceTaints": false}, nil)
		<-time.After(readAgain)
		expect("read again", Source, 3)
		if slices.Contains(w.Gates(36).Enabled(), "DRADeviceTaints") {
			t.Error("a gate that the server has switched off is on")
		}
		server(nil, errors.New("timeout"))
		<-time.After(readAgain)
		expect("failed for a while", Source, 3)
		server(nil, ErrDenied)
		<-time.After(readSoon)
		expect("forbidden", "the defaults of Kubernetes 1.36 (metrics of the API server: forbidden)", 4)
		cancel()
		<-done
	})
}

// TestWatchOfNothing: a watch whose reads end with the program logs nothing.
func TestWatchOfNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWatch(func(ctx context.Context) (gates.Reported, error) { return gates.Reported{}, ctx.Err() }, func() int { return 0 }, logr.Discard())
	w.Run(ctx)
	if g := w.Gates(0); !strings.HasSuffix(g.Source, "(metrics of the API server: not read yet)") {
		t.Error(g.Source)
	}
}
