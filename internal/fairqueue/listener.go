package fairqueue

import (
	"net"
	"sync"
)

// A Listener closes connections beyond a limit, which addresses share fairly: one that opens many
// cannot keep the others out.
type Listener struct {
	net.Listener
	Connections *Shares
	// Refused is called for each connection that is closed at once; it may be nil.
	Refused func()
	// End closes a connection and then calls closed; nil closes it at once.
	End func(connection net.Conn, closed func()) error
}

// Accept returns the next connection within the limit.
func (l Listener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := Address(connection.RemoteAddr().String())
		if l.Connections.Take(address, 1) {
			return &sharing{connection, sync.OnceValue(func() error {
				return l.end(connection, func() { l.Connections.Return(address, 1) })
			})}, nil
		}
		if l.Refused != nil {
			l.Refused()
		}
		connection.Close()
	}
}

func (l Listener) end(connection net.Conn, closed func()) error {
	if l.End != nil {
		return l.End(connection, closed)
	}
	defer closed()
	return connection.Close()
}

// A sharing is a connection that counts until it is closed.
type sharing struct {
	net.Conn
	end func() error
}

// Close closes the connection.
func (c *sharing) Close() error { return c.end() }

// Address is the host of a remote address.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
