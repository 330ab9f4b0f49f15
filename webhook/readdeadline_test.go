package webhook

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// clock is a connection that notes the deadlines that are set.
type clock struct {
	http.ResponseWriter
	set []time.Time
}

func (c *clock) SetReadDeadline(t time.Time) error {
	c.set = append(c.set, t)
	return nil
}

// TestReadDeadline: a body that arrives in time sets no deadline. Of one that does not, the
// connection has the deadline when it has come, and the next request has none.
func TestReadDeadline(t *testing.T) {
	var none time.Time
	for name, test := range map[string]struct {
		do   func(d *readDeadline, start time.Time)
		want func(start time.Time) []time.Time
	}{
		"in time": {func(d *readDeadline, _ time.Time) { d.end() }, func(time.Time) []time.Time { return nil }},
		"late": {func(*readDeadline, time.Time) { <-time.After(5 * time.Second) },
			func(start time.Time) []time.Time { return []time.Time{start.Add(4 * time.Second)} }},
		"at the last moment": {func(d *readDeadline, _ time.Time) { <-time.After(5 * time.Second); d.end() },
			func(start time.Time) []time.Time { return []time.Time{start.Add(4 * time.Second), none} }},
		"with an error": {func(d *readDeadline, _ time.Time) { d.stay(); <-time.After(5 * time.Second) },
			func(start time.Time) []time.Time { return []time.Time{start.Add(4 * time.Second)} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, start := &clock{}, time.Now()
				test.do(newReadDeadline(http.NewResponseController(c), start.Add(4*time.Second)), start)
				synctest.Wait()
				if want := test.want(start); !slices.EqualFunc(c.set, want, time.Time.Equal) {
					t.Errorf("set %v, want %v", c.set, want)
				}
			})
		})
	}
}

// brokenBody is the body of a client that breaks off after a time.
type brokenBody time.Duration

func (b brokenBody) Read([]byte) (int, error) {
	<-time.After(time.Duration(b))
	return 0, io.ErrUnexpectedEOF
}

// finished is a response whose deadline is not to be set after the handler has returned: that panics in HTTP/2.
type finished struct {
	http.ResponseWriter
	returned atomic.Bool
	late     atomic.Int32
}

func (f *finished) SetReadDeadline(time.Time) error {
	if f.returned.Load() {
		f.late.Add(1)
	}
	return nil
}

// TestReadDeadlineAfterTheHandler: when a client breaks off at the moment of the deadline, the timer sets
// none after the handler has returned.
func TestReadDeadlineAfterTheHandler(t *testing.T) {
	i := &intake{limiter: newLimiter(Bounds{}, nil), endpoint: "validate", next: http.NotFoundHandler(), log: logr.Discard()}
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			w := &finished{ResponseWriter: httptest.NewRecorder()}
			i.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/validate", brokenBody(defaultTimeout-answerTime)))
			w.returned.Store(true)
			synctest.Wait()
			if w.late.Load() > 0 {
				t.Fatal("the deadline is set after the handler has returned")
			}
		})
	}
}

// TestBuffersAreNotShared: of requests of different sizes at the same time, each handler reads
// its own body.
func TestBuffersAreNotShared(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	i := &intake{limiter: newLimiter(Bounds{}, nil), endpoint: "validate", next: echo, log: logr.Discard()}
	var all sync.WaitGroup
	for sender := range 4 {
		all.Go(func() {
			for n := range 200 {
				body := strings.Repeat(fmt.Sprintf("%d-%d ", sender, n), 1+n*20)
				answer := httptest.NewRecorder()
				i.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(body)))
				if answer.Body.String() != body {
					t.Errorf("%d bytes of another body", answer.Body.Len())
				}
			}
		})
	}
	all.Wait()
}
