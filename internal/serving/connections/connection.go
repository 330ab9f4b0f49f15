package connections

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// taking is how long a peer may let a write wait. A peer that takes a few bytes now and then
	// does not get more time for the same write.
	taking = 5 * time.Second
	// sendBuffer is what the system keeps of unsent answers of a connection.
	sendBuffer = 64 << 10
)

// A Listener counts the connections that it accepts.
type Listener struct {
	net.Listener
	Account *Account
	// End closes a connection and then calls closed; nil closes it at once.
	End func(connection net.Conn, closed func()) error
}

// Accept returns the next connection for which there is room.
func (l Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, is := inner.(*net.TCPConn); is {
			_ = tcp.SetWriteBuffer(sendBuffer) // it is a hint
		}
		c := &Connection{Conn: inner, account: l.Account}
		c.close = sync.OnceValue(func() error { return c.closeBy(l.End) })
		if l.Account.open(c, Address(inner.RemoteAddr().String())) {
			return c, nil
		}
		l.Account.refused()
		inner.Close()
	}
}

// Address is the host of a remote address.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}

// A Connection counts until it is closed and all that it took is given back. Its methods do nothing on nil: a handler
// may be called without a connection.
type Connection struct {
	net.Conn
	account *Account
	close   func() error

	// These are of the account.
	holder                  *holder
	number, held            int64
	active, answered, ended bool

	// sending is held while a write waits for the peer.
	sending sync.Mutex
	// until is the deadline that was set for writes.
	mu    sync.Mutex
	until time.Time
	// http2 is known after the handshake.
	http2, known bool
	// streams is what is held for the requests of HTTP/2.
	streams int64
}

// Read reads once the peer has taken what was written before: a peer that takes nothing, and sends what has to be
// answered, would fill the memory.
func (c *Connection) Read(p []byte) (int, error) {
	c.sent()
	return c.Conn.Read(p)
}

func (c *Connection) sent() {
	c.sending.Lock()
	defer c.sending.Unlock()
}

// Write writes p, or fails if the peer does not take it in time.
func (c *Connection) Write(p []byte) (int, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	end := time.Now().Add(taking)
	c.mu.Lock()
	if !c.until.IsZero() && c.until.Before(end) {
		end = c.until
	}
	c.mu.Unlock()
	if err := c.Conn.SetWriteDeadline(end); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline makes the time for writes end earlier, not later.
func (c *Connection) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.until = t
	c.mu.Unlock()
	if t.IsZero() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Connection) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Close closes the connection.
func (c *Connection) Close() error { return c.close() }

func (c *Connection) closeBy(end func(net.Conn, func()) error) error {
	closed := func() {
		c.account.end(c)
		c.account.shrink(c, connectionBytes)
	}
	if end != nil {
		return end(c.Conn, closed)
	}
	defer closed()
	return c.Conn.Close()
}

// Take adds n bytes to what the connection holds; false if there is no room for them.
func (c *Connection) Take(n int64) bool { return c == nil || c.account.grow(c, n) }

// Return gives n bytes back.
func (c *Connection) Return(n int64) {
	if c != nil {
		c.account.shrink(c, n)
	}
}

// Trust is for a peer that has proved who it is: it gets room before all others.
func (c *Connection) Trust() {
	if c != nil {
		c.account.trust(c)
	}
}

// note notes whether the connection has requests, and that one was answered.
func (c *Connection) note(active, answered bool) {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()
	c.active = active
	c.answered = c.answered || answered
}

// State is the ConnState of a server. An HTTP/2 connection holds memory for all its streams while it has one.
func State(connection net.Conn, state http.ConnState) {
	c := of(connection)
	if c == nil {
		return
	}
	if secure, is := connection.(*tls.Conn); is && state == http.StateActive && !c.known {
		c.known, c.http2 = true, secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	switch state {
	case http.StateActive:
		c.note(true, false)
		if !c.http2 || c.streams > 0 {
			return
		}
		if n := c.account.streams(); c.Take(n) {
			c.streams = n
			return
		}
		c.account.refused()
		_ = c.Close()
	case http.StateIdle, http.StateClosed:
		c.note(false, false)
		if c.streams > 0 {
			c.Return(c.streams)
			c.streams = 0
		}
	}
}

type key struct{}

// Context is the ConnContext of a server.
func Context(ctx context.Context, connection net.Conn) context.Context {
	return context.WithValue(ctx, key{}, of(connection))
}

// From is the connection of a request, nil if it is not known.
func From(ctx context.Context) *Connection {
	c, _ := ctx.Value(key{}).(*Connection)
	return c
}

func of(connection net.Conn) *Connection {
	if secure, is := connection.(*tls.Conn); is {
		connection = secure.NetConn()
	}
	c, _ := connection.(*Connection)
	return c
}
