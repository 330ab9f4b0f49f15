package webhook_test

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// unusedTime is how long a server keeps a connection on which no request has come.
const unusedTime = 5 * time.Second

// TestIdleConnectionsAreAnswered holds that no review is lost that an API server sends, on a
// connection that was idle through the whole delay, in the moment in which the server would
// close it.
func TestIdleConnectionsAreAnswered(t *testing.T) {
	const rounds, idle = 5, 400
	body := reviewOf(t, "v1", create("ResourceClaim", claim(3)))
	answered, judged := 0, 0
	for range 3 * rounds {
		begin := time.Now()
		some, lost := idleRound(t, body, idle)
		if time.Since(begin) > unusedTime-time.Second {
			continue // clients that were slow to connect have connections that no review has used
		}
		answered += some
		for _, err := range lost {
			t.Errorf("a review was sent and not answered: %v", err)
		}
		if judged++; judged == rounds {
			break
		}
	}
	if answered < judged*idle/4 {
		t.Errorf("%d of %d were answered: the others had no connection", answered, judged*idle)
	}
}

// idleRound opens connections with a review on each, stops the server, and sends a review on each.
func idleRound(t *testing.T, body []byte, idle int) (answered int, lost []error) {
	const delay = 100 * time.Millisecond
	var logged strings.Builder // one line at a time: funcr holds a lock
	log := funcr.New(func(prefix, args string) { fmt.Fprintln(&logged, time.Now().Format(time.StampMicro), prefix, args) }, funcr.Options{Verbosity: 9})
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.ShutdownDelay, s.Log = delay, log })
	client := server.newClient(t, false)
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = idle
	var sent sync.WaitGroup
	for range idle {
		sent.Go(func() {
			if _, err := send(client, server.address, body); err != nil {
				t.Error(err)
			}
		})
	}
	sent.Wait()
	server.stop()
	begin := time.Now()
	var mu sync.Mutex
	for range idle {
		aimed := begin.Add(2*delay + time.Duration(rand.IntN(18000)-4000)*time.Microsecond)
		sent.Go(func() {
			<-time.After(time.Until(aimed))
			written, err := send(client, server.address, body)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				answered++
			case written:
				lost = append(lost, fmt.Errorf("%s after the stop: %w", time.Since(begin), err))
			}
		})
	}
	sent.Wait()
	client.CloseIdleConnections()
	if err := server.wait(); err != nil {
		t.Error(err)
	}
	if len(lost) > 0 {
		t.Logf("the server stopped at %s, and logged\n%s", begin.Format(time.StampMicro), &logged)
	}
	return answered, lost
}

// TestServerWaitsForReviewersOnly holds that the server ends with the last connection that has
// carried a review, and waits for another one only as long as it has no request.
func TestServerWaitsForReviewersOnly(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.ShutdownDelay = 10 * time.Millisecond })
	stranger, err := tls.Dial("tcp", server.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	client := server.newClient(t, false)
	if _, err := send(client, server.address, reviewOf(t, "v1", create("ResourceClaim", claim(1)))); err != nil {
		t.Fatal(err)
	}
	server.stop()
	ended := make(chan error)
	go func() { ended <- server.wait() }()
	select {
	case err := <-ended:
		t.Fatalf("the server ended with an API server connected: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	client.CloseIdleConnections()
	begin := time.Now()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 2*unusedTime {
		t.Errorf("the server waits %s for a connection without a request", took)
	}
}
