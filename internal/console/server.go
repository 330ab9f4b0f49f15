// Package console serves pages that show the devices of a cluster, on loopback, to the one user
// who started it. It writes to the cluster only with a [Writer], what the user confirms.
//
// A [Server] renders a [fleet.Fleet] with html/template, and tells open pages by server-sent
// events what has changed. [Server.Export] writes the same pages as files.
package console

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/report"
)

//go:embed static templates
var files embed.FS

// Options configure a [Server].
type Options struct {
	// Cluster names what is shown, such as the context of a kubeconfig.
	Cluster string
	// Now is the time; it is required.
	Now func() time.Time
	// FleetWithPods returns all that is known of the cluster, with pods: pages that predict need it. Nil
	// takes the input of the fleet that is shown.
	FleetWithPods func(context.Context) (fleet.Input, error)
	// Events returns the Kubernetes events of an object, in any order; pages leave them out if it is nil.
	Events func(ctx context.Context, namespace, kind, name string) ([]*corev1.Event, error)
	// NodeEvents returns the events of the agents of nodes in all namespaces, and whether there are more; the page
	// of findings is empty if it is nil.
	NodeEvents func(ctx context.Context) (events []*corev1.Event, more bool, err error)
	// Findings are the reasons of the events by which the agents of nodes report findings.
	Findings []string
	// History returns the record of a device, nil if there is none; pages leave it out if it is nil.
	History func(context.Context, v1alpha1.DeviceName) (*history.Record, error)
	// Report makes the report of the ladder, Policies reads those of the release in the namespace
	// Release. They are called once at a time. Nil leaves their pages empty.
	Report   func(context.Context) (report.Report, error)
	Policies func(context.Context) (report.Policies, error)
	Release  string
	// Streams is how many pages may listen for changes at a time, 200 if it is 0.
	Streams int
	// Writer writes what users confirm; nil shows no form.
	Writer Writer
	// Name is how the program is called in commands, dra-steward if it is empty.
	Name string
}

// Bounds of the work for one user.
const (
	defaultStreams = 200
	// rendering is how many pages are rendered at a time, predicting how many predictions run.
	rendering  = 4
	predicting = 2
	// pageTime bounds a page, predictTime one prediction of it.
	pageTime    = 20 * time.Second
	predictTime = 5 * time.Second
)

// A Server serves one cluster.
type Server struct {
	options Options
	live    *renderer
	static  fs.FS

	mutex  sync.Mutex // orders changes of shown, and guards opened
	opened *baseline
	shown  atomic.Pointer[shown]

	streams atomic.Int64
	render  chan struct{}
	predict chan struct{}

	report   work[report.Report]
	policies work[report.Policies]

	proposals proposals
}

// shown is what pages show.
type shown struct {
	fleet    *fleet.Fleet
	revision uint64
	at       time.Time
	// stale is why the fleet is not current, empty if it is; since is when that began.
	stale string
	since time.Time
	// changed is closed when something newer is shown.
	changed chan struct{}
}

// New returns a server that shows nothing yet.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		return nil, errors.New("console: Options.Now is required")
	}
	if o.Streams == 0 {
		o.Streams = defaultStreams
	}
	if o.Name == "" {
		o.Name = "dra-steward"
	}
	s := &Server{options: o, render: make(chan struct{}, rendering), predict: make(chan struct{}, predicting), proposals: proposals{one: make(chan struct{}, 1)}}
	var err error
	if s.live, err = newRenderer(links{}); err != nil {
		return nil, err
	}
	if s.static, err = fs.Sub(files, "static"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	s.shown.Store(&shown{fleet: &fleet.Fleet{}, changed: make(chan struct{})})
	return s, nil
}

// Show makes pages show a fleet. Whether it is current is what Stale says: a fleet may be made of lists
// that are not.
func (s *Server) Show(f *fleet.Fleet) {
	s.next(func(now *shown) { now.fleet, now.at = f, s.options.Now() })
}

// Stale makes pages say that what they show is not current, and why. An empty reason ends that.
func (s *Server) Stale(reason string) {
	if s.shown.Load().stale == reason {
		return
	}
	s.next(func(now *shown) {
		if now.stale == "" {
			now.since = s.options.Now()
		}
		now.stale = reason
	})
}

func (s *Server) next(change func(*shown)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.shown.Load()
	now := *before
	now.revision, now.changed = before.revision+1, make(chan struct{})
	change(&now)
	s.shown.Store(&now)
	close(before.changed)
}

// routes are the pages, without the checks of [Gate].
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page(s.mapPage))
	mux.HandleFunc("GET /device", s.page(s.devicePage))
	mux.HandleFunc("GET /claim", s.page(s.claimPage))
	mux.HandleFunc("GET /pod", s.page(s.podPage))
	mux.HandleFunc("GET /drains", s.page(s.drainsPage))
	mux.HandleFunc("GET /drain", s.page(s.drainPage))
	mux.HandleFunc("GET /taints", s.page(s.taintsPage))
	mux.HandleFunc("GET /capacity", s.page(s.capacityPage))
	mux.HandleFunc("GET /findings", s.page(s.findingsPage))
	mux.HandleFunc("GET /policies", s.page(s.policiesPage))
	mux.HandleFunc("GET /report", s.page(s.reportPage))
	if s.options.Writer != nil {
		mux.HandleFunc("POST /preview", s.propose)
		mux.HandleFunc("POST /confirm", s.confirm)
		mux.HandleFunc("GET /change", s.page(s.proposalPage))
	}
	mux.HandleFunc("GET /map.json", s.mapJSON)
	mux.HandleFunc("GET /events", s.events)
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(s.static)))
	return mux
}

// A pageFunc makes the content of a page.
type pageFunc func(ctx context.Context, r *http.Request, now *shown) (page, error)

// errNotFound is about an object that does not exist, or that the user is not allowed to read.
var errNotFound = errors.New("not found")

// errInput is about a wrong address.
var errInput = errors.New("cannot read the address")

// page renders a page, a bounded number at a time.
func (s *Server) page(make pageFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTime)
		defer cancel()
		select {
		case s.render <- struct{}{}:
			defer func() { <-s.render }()
		case <-ctx.Done():
			http.Error(w, "busy: other pages are being rendered; try again", http.StatusServiceUnavailable)
			return
		}
		now := s.shown.Load()
		content, err := make(ctx, r, now)
		status := http.StatusOK
		switch {
		case errors.Is(err, errNotFound):
			status = http.StatusNotFound
		case errors.Is(err, errInput):
			status = http.StatusBadRequest
		case errors.Is(err, errForm):
			status = http.StatusUnprocessableEntity
		case errors.Is(err, errBusy):
			status = http.StatusConflict
		case err != nil:
			status = http.StatusInternalServerError
		}
		if err != nil {
			content = page{Template: "error", Title: http.StatusText(status), Data: err.Error()}
		}
		if s.options.Writer != nil {
			content.Form = formToken(ctx)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		// The connection ends in the middle of a page that cannot be written.
		_ = s.live.write(w, s.frame(content, now))
	}
}

// frame adds what every page has.
func (s *Server) frame(p page, now *shown) page {
	p.Cluster, p.Fleet, p.Revision, p.At, p.Live = s.options.Cluster, now.fleet, now.revision, now.at, true
	p.Stale, p.Since, p.Now = now.stale, now.since, s.options.Now()
	return p
}
