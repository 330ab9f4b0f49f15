package webhook_test

import (
	"crypto/tls"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestIdleConnectionsAreAnswered holds that no review is lost that an API server sends, on a
// connection that was idle through the whole delay, in the moment in which the server would
// close it.
func TestIdleConnectionsAreAnswered(t *testing.T) {
	const rounds, idle, delay = 5, 400, 100 * time.Millisecond
	body := reviewOf(t, "v1", create("ResourceClaim", claim(3)))
	answered := 0
	for range rounds {
		server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.ShutdownDelay = delay })
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
				switch written, err := send(client, server.address, body); {
				case err == nil:
					mu.Lock()
					answered++
					mu.Unlock()
				case written:
					t.Errorf("a review was sent and not answered: %v", err)
				}
			})
		}
		sent.Wait()
		client.CloseIdleConnections()
		if err := server.wait(); err != nil {
			t.Error(err)
		}
	}
	if answered < rounds*idle/4 {
		t.Errorf("%d of %d were answered: the others had no connection", answered, rounds*idle)
	}
}

// TestServerWaitsForReviewersOnly holds that the server ends with the last connection that has
// carried a review, and does not wait for others.
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
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
