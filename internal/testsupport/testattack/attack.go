// Package testattack attacks the HTTP servers of a program by what their clients do with connections.
package testattack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An Attack uses one connection until ctx or the connection ends.
type Attack struct {
	Name string
	// HTTP2 is nil for an attack by HTTP/1.1.
	HTTP2 func(ctx context.Context, p *Peer) error
	HTTP1 func(ctx context.Context, c net.Conn, path string) error
	// Raw says that there is no handshake of TLS before.
	Raw bool
}

// A Target is what is attacked.
type Target struct {
	Address string
	// Path is that of the requests.
	Path string
	// Plain is HTTP without TLS, which has no HTTP/2.
	Plain bool
}

// A Force is how an attack is repeated.
type Force struct {
	// Addresses of the loopback network, from 127.1.0.1 on.
	Addresses int
	// Connections that are open at the same time, of all addresses.
	Connections int
}

// Run attacks a target until ctx ends, and opens each connection again that the target ends. It returns how many it opened.
func (f Force) Run(ctx context.Context, target Target, attack Attack) int64 {
	var all sync.WaitGroup
	var opened atomic.Int64
	for i := range f.Connections {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := f.attack(ctx, i, target, attack, &opened); err != nil {
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	all.Wait()
	return opened.Load()
}

var errEnded = errors.New("the target has ended the connection")

func (f Force) attack(ctx context.Context, i int, target Target, attack Attack, opened *atomic.Int64) error {
	address := net.IPv4(127, 1, 0, byte(1+i%f.Addresses))
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: address}, Timeout: 5 * time.Second}
	connection, err := dialer.DialContext(ctx, "tcp", target.Address)
	if err != nil {
		return err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) })()
	if tcp, is := connection.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	if !target.Plain && !attack.Raw {
		protocol := "http/1.1"
		if attack.HTTP2 != nil {
			protocol = "h2"
		}
		secure := tls.Client(connection, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		connection = secure
	}
	opened.Add(1)
	if attack.HTTP2 == nil {
		return attack.HTTP1(ctx, connection, target.Path)
	}
	peer, err := newPeer(connection, target.Path)
	if err != nil {
		return err
	}
	return attack.HTTP2(ctx, peer)
}

// All are the attacks.
func All() []Attack {
	return append(http2Attacks(), []Attack{
		{Name: "no handshake", Raw: true, HTTP1: func(ctx context.Context, c net.Conn, _ string) error { return hold(ctx, c) }},
		{Name: "nothing after the handshake", HTTP1: func(ctx context.Context, c net.Conn, _ string) error { return hold(ctx, c) }},
		{Name: "headers that trickle", HTTP1: func(ctx context.Context, c net.Conn, path string) error {
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n", path)
			return trickle(ctx, 100*time.Millisecond, func(i int) error { return write(c, "X-%d: x\r\n", i) })
		}},
		{Name: "a body that trickles", HTTP1: func(ctx context.Context, c net.Conn, path string) error {
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, 4<<20)
			return trickle(ctx, 20*time.Millisecond, func(int) error { return write(c, "%4096s", "") })
		}},
		{Name: "answers of HTTP/1.1 that are not read", HTTP1: func(ctx context.Context, c net.Conn, path string) error {
			return repeat(ctx, func(int) error { return write(c, "%s", request(path)) })
		}},
		{Name: "answers of HTTP/1.1 that are read slowly", HTTP1: func(ctx context.Context, c net.Conn, path string) error {
			go func() { _ = repeat(ctx, func(int) error { return write(c, "%s", request(path)) }) }()
			buffer := make([]byte, 16)
			return trickle(ctx, 200*time.Millisecond, func(int) error { _, err := c.Read(buffer); return err })
		}},
	}...)
}

// Costliest are those that held the most before connections were counted.
func Costliest() []Attack {
	return slices.DeleteFunc(All(), func(a Attack) bool {
		return !slices.Contains([]string{"answers without a window", "answers without a window to headers that are too large",
			"rapid reset with large headers", "PING without reading", "large frames", "answers of HTTP/1.1 that are not read"}, a.Name)
	})
}

// request is an ordinary review whose answer names the object in many words.
func request(path string) string {
	if path == "/metrics" || path == "/readyz" {
		return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(review), review)
}

const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"7","kind":{"group":"resource.k8s.io","version":"v1","kind":"ResourceClaim"},` +
	`"resource":{"group":"resource.k8s.io","version":"v1","resource":"resourceclaims"},"operation":"CREATE","namespace":"attack","userInfo":{"username":"attacker"},` +
	`"object":{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a","namespace":"attack"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.example.com"}}]}}}}}`

// hold waits until the target ends the connection.
func hold(ctx context.Context, c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return outcome(ctx, err)
}

func outcome(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		return errEnded
	}
	return err
}

// repeat does something until it fails.
func repeat(ctx context.Context, do func(i int) error) error {
	for i := 0; ctx.Err() == nil; i++ {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// trickle does something again and again.
func trickle(ctx context.Context, gap time.Duration, do func(i int) error) error {
	tick := time.NewTicker(gap)
	defer tick.Stop()
	return repeat(ctx, func(i int) error {
		select {
		case <-tick.C:
			return do(i)
		case <-ctx.Done():
			return nil
		}
	})
}

func write(c net.Conn, format string, values ...any) error {
	_, err := fmt.Fprintf(c, format, values...)
	return err
}
