// Package servergates reads the feature gates of the API server, for programs that cannot ask
// kube-scheduler for its own: most clusters run both with the same.
package servergates

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
)

// Source is where gates come from that the API server reports.
const Source = "the metrics of the API server"

// ErrDenied is the answer of a server that does not let us read its metrics.
var ErrDenied = errors.New("forbidden")

// Read reads the metrics of an API server.
func Read(ctx context.Context, client rest.Interface) (gates.Reported, error) {
	return Parse(client.Get().AbsPath("/metrics").Stream(ctx))
}

// Parse reads the gates of an answer, and closes it.
func Parse(body io.ReadCloser, err error) (gates.Reported, error) {
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return gates.Reported{}, ErrDenied
	case err != nil:
		return gates.Reported{}, err
	}
	defer body.Close()
	return gates.Parse(body)
}

// Of are the gates of a cluster of a minor version, from what [Read] has returned.
func Of(reported gates.Reported, err error, minor int) gates.Gates {
	if err == nil {
		return gates.With(reported.Gates, minor, Source)
	}
	g := gates.Defaults(minor)
	g.Source += fmt.Sprintf(" (metrics of the API server: %v)", err)
	return g
}

const (
	// readAgain is how often the metrics are read, readSoon after a failure: the components of a
	// control plane restart with other gates while we run. One answer may take readTime.
	readAgain = 5 * time.Minute
	readSoon  = 30 * time.Second
	readTime  = 10 * time.Second
)

// errUnread is the error before the first answer.
var errUnread = errors.New("not read yet")

// A Watch keeps the gates of the API server up to date, and logs them when they change.
type Watch struct {
	read  func(context.Context) (gates.Reported, error)
	minor func() int
	log   logr.Logger
	// asked is closed after the first answer.
	asked chan struct{}

	// logged is the last line of the log; only Run uses it.
	logged string

	mutex    sync.Mutex
	reported gates.Reported
	err      error
}

// NewWatch prepares it; minor is the minor version of Kubernetes, 0 while it is not known.
func NewWatch(client rest.Interface, minor func() int, log logr.Logger) *Watch {
	return newWatch(func(ctx context.Context) (gates.Reported, error) { return Read(ctx, client) }, minor, log)
}

func newWatch(read func(context.Context) (gates.Reported, error), minor func() int, log logr.Logger) *Watch {
	return &Watch{read: read, minor: minor, log: log, asked: make(chan struct{}), err: errUnread}
}

// Run reads them until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for {
		again := readAgain
		if err := w.once(ctx); err != nil && !errors.Is(err, ErrDenied) {
			again = readSoon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

func (w *Watch) once(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	reported, err := w.read(limited)
	if ctx.Err() != nil {
		return nil
	}
	w.mutex.Lock()
	if w.err == errUnread {
		close(w.asked)
	}
	// A server that fails for a while has the gates that it had.
	if err == nil || errors.Is(err, ErrDenied) || w.err != nil {
		w.reported, w.err = reported, err
	}
	w.mutex.Unlock()
	w.report(w.Gates(w.minor()))
	return err
}

// report logs gates that differ from the last ones.
func (w *Watch) report(g gates.Gates) {
	if line := g.Source + strings.Join(slices.Concat([]string{""}, g.Enabled()), " "); line != w.logged {
		w.logged = line
		w.log.Info("Pods are placed with these feature gates of kube-scheduler", "source", g.Source, "enabled", g.Enabled())
	}
}

// Name is that of what is read, for a DoneChecker of client-go.
func (w *Watch) Name() string { return "feature gates" }

// Done is closed after the first answer of the API server, or an attempt that failed.
func (w *Watch) Done() <-chan struct{} { return w.asked }

// Gates are those of the cluster, which has the minor version. Before the first answer they are
// the defaults of the version.
func (w *Watch) Gates(minor int) gates.Gates {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return Of(w.reported, w.err, minor)
}
