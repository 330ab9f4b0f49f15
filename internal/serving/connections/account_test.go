package connections_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/serving/connections"
)

// from is a listener for connections of an address.
type from struct {
	net.Listener
	address string
	fail    *bool
}

type peer struct {
	net.Conn
	address string
}

func (p peer) RemoteAddr() net.Addr { return text(p.address) }
func (p peer) Close() error         { return p.Conn.Close() }

type text string

func (t text) Network() string { return "tcp" }
func (t text) String() string  { return string(t) }

// Accept fails after one connection, so that one that is refused does not make the test wait.
func (f from) Accept() (net.Conn, error) {
	if *f.fail {
		return nil, net.ErrClosed
	}
	*f.fail = true
	server, _ := net.Pipe()
	return peer{server, f.address + ":1"}, nil
}

func open(a *connections.Account, address string) *connections.Connection {
	accepted, err := connections.Listener{Listener: from{address: address, fail: new(bool)}, Account: a}.Accept()
	if err != nil {
		return nil
	}
	return accepted.(*connections.Connection)
}

// TestNeverMoreThanTwice: whatever addresses open, take and give back, open connections hold no more than the limit, all no more than
// twice the limit, and at the end all is given back.
func TestNeverMoreThanTwice(t *testing.T) {
	type taken struct {
		connection *connections.Connection
		n          int64
	}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		a := connections.ForConnections(1 + random.IntN(100))
		addresses := 1 + random.IntN(200)
		var all []*connections.Connection
		var held []taken
		for range 2000 {
			switch random.IntN(4) {
			case 0, 1:
				if c := open(a, strconv.Itoa(random.IntN(addresses))); c != nil {
					all = append(all, c)
				}
			case 2:
				if n := random.Int64N(a.Limit); len(all) > 0 {
					if c := all[random.IntN(len(all))]; c.Take(n) {
						held = append(held, taken{c, n})
					}
				}
			case 3:
				if len(held) > 0 {
					i := random.IntN(len(held))
					held[i].connection.Return(held[i].n)
					held = append(held[:i], held[i+1:]...)
				}
			}
			if used, ending := a.Held(); used > a.Limit || used+ending > 2*a.Limit || used < 0 || ending < 0 {
				t.Fatalf("seed %d: %d are used and %d end, the limit is %d", seed, used, ending, a.Limit)
			}
		}
		for _, h := range held {
			h.connection.Return(h.n)
		}
		for _, c := range all {
			c.Close()
		}
		if used, ending := a.Held(); used != 0 || ending != 0 {
			t.Fatalf("seed %d: %d and %d are not given back", seed, used, ending)
		}
	}
}

// TestFairShares: one address may have all; others get their share from it, whoever came first, and none gets more than others then.
func TestFairShares(t *testing.T) {
	a := connections.ForConnections(100)
	count := func(address string, n int) (opened int) {
		for range n {
			if c := open(a, address); c != nil {
				opened++
			}
		}
		return opened
	}
	if n := count("first", 100); n != 100 {
		t.Fatalf("the first address has %d of 100 connections", n)
	}
	for i := range 49 {
		if n := count(strconv.Itoa(i), 2); n != 2 {
			t.Fatalf("address %d has %d connections, want its share of 2", i, n)
		}
	}
	if a.HeldBy("first") > a.Limit/50 {
		t.Errorf("the first address holds %d of %d", a.HeldBy("first"), a.Limit)
	}
}

// TestTrusted: peers that have proved who they are get room before all others, and keep it.
func TestTrusted(t *testing.T) {
	a := connections.ForConnections(10)
	server := open(a, "api")
	server.Trust()
	for i := range 20 {
		open(a, strconv.Itoa(i))
	}
	if !server.Take(a.Limit / 10 * 9) {
		t.Error("a trusted peer gets no room")
	}
	if c := open(a, "other"); c != nil {
		t.Error("another one gets the room of a trusted peer")
	}
	if !server.Take(0) {
		t.Error("the trusted connection was ended")
	}
}

// TestPeerThatTakesNothing: a write to it ends in time, and meanwhile nothing is read from it.
func TestPeerThatTakesNothing(t *testing.T) {
	server, client := net.Pipe()
	defer client.Close()
	accepted, err := connections.Listener{Listener: pipe{server: server}, Account: connections.ForConnections(1)}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := accepted.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := accepted.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

type pipe struct {
	net.Listener
	server net.Conn
}

func (p pipe) Accept() (net.Conn, error) { return p.server, nil }
