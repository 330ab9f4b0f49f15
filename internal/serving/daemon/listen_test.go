package daemon

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestConnections: an address that opens more connections than the limit, and sends nothing, does not
// take all of them, and does not keep probes of another address out.
func TestConnections(t *testing.T) {
	at, err := ListenAll(map[string]string{"--health-address": "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	listener := at["--health-address"]
	go func() { _ = ServeHTTP(t.Context(), listener, Probes(nil)) }()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	var opened []net.Conn
	for range 2 * peers {
		connection, err := dialer.DialContext(t.Context(), "tcp", AddressOf(listener))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		opened = append(opened, connection)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	for range peers { // each is given back
		response, err := client.Get("http://" + AddressOf(listener) + "/healthz")
		if err != nil {
			t.Fatalf("a probe of another address: %v", err)
		}
		response.Body.Close()
	}
	var reading sync.WaitGroup
	var open atomic.Int64
	for _, connection := range opened {
		reading.Go(func() {
			_ = connection.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := connection.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				open.Add(1)
			}
		})
	}
	reading.Wait()
	if n := open.Load(); n > peers || n < peers/2 {
		t.Errorf("%d connections of one address are open, want about %d", n, peers)
	}
}
