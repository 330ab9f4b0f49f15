package webhook

import (
	"net"
	"sync"

	"github.com/dra-steward/dra-steward/internal/fairqueue"
)

// limitedListener closes connections beyond a limit, which addresses share fairly: one that
// opens many cannot keep the others out.
type limitedListener struct {
	net.Listener
	connections *fairqueue.Shares
	metrics     *Metrics
}

// Accept returns the next connection within the limit.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := addressOf(connection.RemoteAddr().String())
		if l.connections.Take(address, 1) {
			return &limitedConnection{connection, sync.OnceFunc(func() { l.connections.Return(address, 1) })}, nil
		}
		l.metrics.refuse("", "connections")
		connection.Close()
	}
}

type limitedConnection struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *limitedConnection) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
