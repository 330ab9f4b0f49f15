package webhook

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long a connection is read after the server has closed its side. A client
	// that is short of CPU may need so long to read that the server is leaving.
	lingerTime = 5 * time.Second
	// lingerBytes is what one connection may send in that time: more than the flow control of
	// HTTP/2 allows a client that gets no answers.
	lingerBytes = 1 << 20
)

// lingering ends the connections of a server that stops. The system answers what arrives on a closed
// connection with a reset, and a client that gets one loses what it has not read: that the
// server does not accept more requests (GOAWAY), upon which it sends them to another one. So
// only the direction to the client is closed at first.
type lingering struct {
	begun       atomic.Bool
	connections sync.WaitGroup
}

// close closes a connection, at once as long as the server does not stop. It calls closed at the end.
func (l *lingering) close(connection net.Conn, closed func()) error {
	half, is := connection.(interface{ CloseWrite() error })
	if !is || !l.begun.Load() || half.CloseWrite() != nil {
		defer closed()
		return connection.Close()
	}
	l.connections.Go(func() {
		defer closed()
		defer connection.Close()
		if err := connection.SetReadDeadline(time.Now().Add(lingerTime)); err == nil {
			_, _ = io.CopyN(io.Discard, connection, lingerBytes)
		}
	})
	return nil
}

// wait waits until the clients have closed their side, or until ctx ends.
func (l *lingering) wait(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		l.connections.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
