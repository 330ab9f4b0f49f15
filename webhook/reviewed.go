package webhook

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/internal/serving/connections"
)

// clientIdle is how long API servers keep a connection that they do not use (90 s), and a little.
const clientIdle = 95 * time.Second

// reviewers are the open connections of HTTP/1 that have carried a review, and those of which it
// is not known yet: whose first request has not been answered. Until its client has closed it, such
// a connection may carry another review, and net/http closes a connection without an answer if it
// reads a request after Shutdown has begun. An API server does not repeat a review that it has
// written. A connection without a request ends after ReadHeaderTimeout. The zero value is empty; a
// nil one notes nothing.
type reviewers struct {
	mu sync.Mutex
	// open has, for each connection, whether it has carried a review.
	open map[*connections.Connection]bool
	// none is closed when the last one is closed; nil if nothing waits for that.
	none chan struct{}
}

// add notes a review.
func (r *reviewers) add(request *http.Request) {
	c := connections.From(request.Context())
	if r == nil || c == nil || request.ProtoMajor != 1 {
		return // HTTP/2 tells clients which requests to repeat
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[*connections.Connection]bool{}
	}
	r.open[c] = true
}

// state is the ConnState of a server.
func (r *reviewers) state(connection net.Conn, state http.ConnState) {
	connections.State(connection, state)
	c := connections.From(connections.Context(context.Background(), connection))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch state {
	case http.StateNew:
		if r.open == nil {
			r.open = map[*connections.Connection]bool{}
		}
		r.open[c] = false
		return
	case http.StateActive:
		return
	case http.StateIdle:
		if r.open[c] {
			return
		}
	}
	delete(r.open, c)
	if len(r.open) == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// wait waits until all are closed, at most as long as API servers keep them, or until ctx ends.
func (r *reviewers) wait(ctx context.Context) {
	r.mu.Lock()
	if len(r.open) == 0 {
		r.mu.Unlock()
		return
	}
	none := make(chan struct{})
	r.none = none
	r.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, clientIdle)
	defer cancel()
	select {
	case <-none:
	case <-limited.Done():
	}
}
