package webhook_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// A slowConnection is that of a client that is short of CPU: it reads late what has arrived.
type slowConnection struct {
	net.Conn
	mutex    sync.Mutex
	changed  *sync.Cond
	received []byte
	err      error
	held     bool
	// ended is closed when the server has closed its side.
	ended chan struct{}
}

func newSlowConnection(connection net.Conn) *slowConnection {
	s := &slowConnection{Conn: connection, ended: make(chan struct{})}
	s.changed = sync.NewCond(&s.mutex)
	go s.receive()
	return s
}

func (s *slowConnection) receive() {
	defer close(s.ended)
	for buffer := make([]byte, 4096); s.err == nil; {
		n, err := s.Conn.Read(buffer)
		s.mutex.Lock()
		s.received, s.err = append(s.received, buffer[:n]...), err
		s.changed.Broadcast()
		s.mutex.Unlock()
	}
}

func (s *slowConnection) hold(held bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.held = held
	s.changed.Broadcast()
}

// Read returns nothing as long as the connection is held.
func (s *slowConnection) Read(p []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.held || len(s.received) == 0 && s.err == nil {
		s.changed.Wait()
	}
	if len(s.received) == 0 {
		return 0, s.err
	}
	n := copy(p, s.received)
	s.received = s.received[n:]
	return n, nil
}

// TestStopWithSlowClient: a request is not lost either if its client has not read yet that the server leaves,
// and writes it to a connection that the server has closed.
func TestStopWithSlowClient(t *testing.T) {
	leaving, staying := start(t, review.Reviewer{}, nil), start(t, review.Reviewer{}, nil)
	var first *slowConnection
	var dialed atomic.Int64
	client := leaving.newClient(t, true)
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		if dialed.Add(1) > 1 {
			return dialer.DialContext(ctx, network, staying.address)
		}
		connection, err := dialer.DialContext(ctx, network, leaving.address)
		if err != nil {
			return nil, err
		}
		first = newSlowConnection(connection)
		return first, nil
	}
	body := reviewOf(t, "v1", create("ResourceClaim", claim(3)))
	if _, err := send(client, leaving.address, body); err != nil {
		t.Fatal(err)
	}
	first.hold(true)
	leaving.stop()
	<-first.ended

	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { first.hold(false) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+leaving.address+"/validate", bytes.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("the request was lost: %v", err)
	}
	response.Body.Close()
	if n := dialed.Load(); n != 2 {
		t.Errorf("%d connections were opened, want 2", n)
	}
	if err := leaving.wait(); err != nil {
		t.Error(err)
	}
}
