package webhook

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/serving/connections"
	"github.com/dra-steward/dra-steward/internal/serving/fairqueue"
)

// Bounds limit what requests cost a server. The zero value has limits that suit a container
// with 512 MiB of memory.
type Bounds struct {
	// Timeout is how long API servers wait for an answer, unless a request says less; 0
	// means 5 s. A request is answered a second earlier.
	Timeout time.Duration
	// Slots is how many requests of tenants are evaluated at the same time; 0 means twice
	// the number of CPUs, at least 4. The guard, components of Kubernetes and drivers have
	// slots of their own.
	Slots int
	// Bytes limits the bodies of requests in memory; 0 means 64 MiB. A body counts three
	// times, for it is decoded. Connections, their requests, and answers that clients have not
	// taken hold at most twice as much together.
	Bytes int64
	// Streams limits the HTTP/2 streams of a connection; 0 means 16.
	Streams int
	// System reports whether a user is a component of Kubernetes. Requests of these are
	// never refused for want of time or room: they are admitted unchecked, and counted. Nil
	// knows none.
	System func(user string) bool
	// Tenant returns who shares with others in a namespace; nil or "" is the namespace.
	Tenant func(namespace string) string
}

const (
	defaultTimeout = 5 * time.Second
	defaultBytes   = 64 << 20
	minSlots       = 4
	// reservedSlots is how many requests of the guard, of components of Kubernetes, and of
	// drivers are evaluated at the same time, for each of the three.
	reservedSlots = 2
	// waiting is how many requests of a tenant wait for a slot. All API servers may be one address, and all of
	// their requests about one tenant.
	waiting = 2048
	// answerTime is what is left to an API server to receive the answer. It rounds its own
	// timeout up to whole seconds.
	answerTime = time.Second
	// maxBody is the size of the largest request: two objects of 3 MiB, which API servers
	// accept at most, and 1 MiB for the rest.
	maxBody = 7 << 20
	// firstBytes is what is read of every request, as part of what its connection holds. API
	// servers write user and groups within the first of them.
	firstBytes = 4 << 10
	// headBytes holds more than what precedes the object, by which it is decided whether the
	// rest is read.
	headBytes = 32 << 10
	// headerBytes is the size of the largest headers.
	headerBytes = 8 << 10
	// frameBytes is the size of the largest frame of HTTP/2. A connection keeps a buffer for it.
	frameBytes = 16 << 10
	// perByte is how often the body of a request is in memory.
	perByte = 3
)

// class is the kind of slots that a request takes.
type class int

const (
	tenants class = iota
	guards
	components
	drivers
	numClasses
)

// limiter keeps what Bounds say.
type limiter struct {
	Bounds
	queues   [numClasses]fairqueue.Queue
	overruns overruns
	// account is shared by address, bodies by tenant within each class.
	account   *connections.Account
	bodies    [numClasses]fairqueue.Shares
	lingering lingering
	reviewed  reviewers
	metrics   *Metrics
}

func newLimiter(b Bounds, metrics *Metrics) *limiter {
	l := &limiter{Bounds: b, metrics: metrics}
	if l.Timeout <= 0 {
		l.Timeout = defaultTimeout
	}
	if l.Slots <= 0 {
		l.Slots = max(2*runtime.GOMAXPROCS(0), minSlots)
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	for c := range numClasses {
		l.queues[c].Slots, l.queues[c].PerTenant, l.queues[c].Waiting = reservedSlots, reservedSlots, waiting
		l.bodies[c].Limit = l.Bytes / 4
	}
	l.queues[tenants].Slots, l.queues[tenants].PerTenant = l.Slots, 0
	l.bodies[tenants].Limit = l.Bytes
	l.account = &connections.Account{Limit: 2 * l.Bytes, Streams: l.Streams, Refused: func() { metrics.refuse("", "connections") }}
	return l
}

// server returns an HTTP server in which a connection holds little memory, and for no longer
// than it is used.
func (l *limiter) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           connections.Answers(handler),
		ConnState:         l.reviewed.state,
		ConnContext:       connections.Context,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          cmp.Or(l.Streams, connections.DefaultStreams),
			MaxReadFrameSize:              frameBytes,
			MaxReceiveBufferPerConnection: 128 << 10,
			MaxReceiveBufferPerStream:     128 << 10,
			SendPingTimeout:               30 * time.Second,
			PingTimeout:                   10 * time.Second,
		},
	}
}

// listener counts the connections of another one.
func (l *limiter) listener(listener net.Listener) net.Listener {
	return connections.Listener{Listener: listener, Account: l.account, End: l.lingering.close}
}

// deadline is when a request is answered at the latest.
func (l *limiter) deadline(r *http.Request, now time.Time) time.Time {
	timeout := l.Timeout
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		timeout = min(timeout, asked)
	}
	return now.Add(max(timeout-answerTime, timeout/2))
}

// acquire waits for a slot, no longer than half of the time that is left.
func (l *limiter) acquire(ctx context.Context, c class, tenant string) (*slot, error) {
	by := holder{c, tenant}
	if l.overruns.has(by) {
		return nil, errBusy
	}
	end, _ := ctx.Deadline()
	release, err := l.queues[c].Acquire(ctx, time.Until(end)/2, tenant)
	if err != nil {
		return nil, err
	}
	if l.overruns.has(by) { // since it began to wait
		release()
		return nil, errBusy
	}
	return &slot{overruns: &l.overruns, holder: by, release: release}, nil
}

// classOf returns the class of a request, and who shares it with others.
func (l *limiter) classOf(guard bool, h head) (class, string) {
	switch {
	case l.isSystem(h):
		return components, h.user
	case guard:
		return guards, h.user
	case h.isSlice():
		return drivers, h.user
	case h.namespace == "":
		return tenants, "user " + h.user
	}
	tenant := ""
	if l.Tenant != nil {
		tenant = l.Tenant(h.namespace)
	}
	if tenant == "" {
		return tenants, "namespace " + h.namespace
	}
	return tenants, "tenant " + tenant
}

// isSystem reports whether a component of Kubernetes writes. Pods are not: who creates one
// acts for the author of its template.
func (l *limiter) isSystem(h head) bool {
	pod := h.resource == "pods" && h.subResource == "" && h.operation == admissionv1.Create
	return l.System != nil && !pod && l.System(h.user)
}

// mayPass reports whether a request that cannot be checked, or not in time, is admitted: those of
// components of Kubernetes and drivers, which would stop, deletions, and ConfigMaps with
// policies, which are checked again before they are loaded.
func (l *limiter) mayPass(h head) bool {
	return l.isSystem(h) || h.isSlice() || h.operation == admissionv1.Delete || h.operation == admissionv1.Connect ||
		h.resource == "pods" && h.subResource == "eviction" || h.group == "" && h.resource == "configmaps"
}

func (h head) isSlice() bool {
	return h.group == resourceapi.GroupName && h.resource == slicesResource
}

const slicesResource = "resourceslices"

// resources are what a request holds until all work on it has ended, which may be after its
// answer.
type resources struct {
	mu    sync.Mutex
	users int
	back  []func()
}

// hold adds what is to be given back.
func (l *resources) hold(back func()) { l.back = append(l.back, back) }

func (l *resources) use() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
}

func (l *resources) end() {
	l.mu.Lock()
	l.users--
	ended := l.users == 0
	l.mu.Unlock()
	if !ended {
		return
	}
	for _, back := range l.back {
		back()
	}
}
