package webhook_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestHandshakes: connections that have not finished their handshake, or are not used yet, are
// limited, and one address cannot take the place of others. A used one takes no place.
func TestHandshakes(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.Handshakes = 20 })
	for range 30 {
		server.client = server.newClient(t, true) // its connection stays open
		server.lives(t)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: 10 * time.Second}
	var idle []net.Conn
	for range 40 {
		connection, err := dialer.DialContext(t.Context(), "tcp", server.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		idle = append(idle, connection)
	}
	server.client = server.newClient(t, true)
	server.lives(t)
	open := 0
	for _, connection := range idle {
		if err := connection.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			open++
		}
	}
	if open == 0 || open > 20 {
		t.Errorf("%d connections are in a handshake, want at most 20", open)
	}
}
