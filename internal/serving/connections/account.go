// Package connections bounds what the peers of a server cost it, from the first byte of a
// connection until its last answer is taken.
package connections

import (
	"cmp"
	"sync"
)

const (
	// connectionBytes is what a connection holds: the buffers of TLS and of HTTP, the tables of
	// HPACK, and one request with its headers and its unsent answer.
	connectionBytes = 64 << 10
	// streamBytes is what each further request of HTTP/2 holds without its body: headers, stack, and
	// an answer that the client does not take.
	streamBytes = 20 << 10
	// DefaultStreams is how many requests a connection of HTTP/2 has at the same time. A client opens another
	// connection for more.
	DefaultStreams = 16
)

// An Account bounds the memory of a server for its peers. Each connection counts for its address:
// its buffers, its requests until their answers are taken, and what handlers take for bodies. One address may use
// all of Limit while no other one asks. An address that asks for more, when there is no more, gets it from the
// address that holds the most, if that one does not hold less than it then: connections of that one are ended. So an
// address keeps its fair share, whoever came first.
//
// Connections that are open never hold more than Limit. Together with those that are ended and whose
// handlers have not returned yet, they never hold more than twice the Limit.
type Account struct {
	// Limit is in bytes.
	Limit int64
	// Streams is how many requests an HTTP/2 connection may have; 0 means DefaultStreams.
	Streams int
	// Refused is called for each connection that is closed for want of room; it may be nil.
	Refused func()

	mu           sync.Mutex
	used, ending int64
	holders      map[string]*holder
	opened       int64
}

// ForConnections is an account with room for so many connections, each with one request at a time.
func ForConnections(n int) *Account { return &Account{Limit: int64(n) * connectionBytes} }

// A holder is an address, or all peers that are trusted.
type holder struct {
	address     string
	trusted     bool
	held        int64
	connections map[*Connection]struct{}
}

// trustedPeers is the address of the holder of all connections that are trusted.
const trustedPeers = ""

// streams is what the requests of an HTTP/2 connection hold beyond the first one.
func (a *Account) streams() int64 {
	return int64(cmp.Or(a.Streams, DefaultStreams)-1) * streamBytes
}

// open counts a connection of an address; false if there is no room.
func (a *Account) open(c *Connection, address string) bool {
	a.mu.Lock()
	c.holder = a.holder(address)
	a.opened++
	c.number = a.opened
	c.holder.connections[c] = struct{}{}
	taken, ended := a.take(c, connectionBytes)
	if !taken {
		a.leave(c)
		c.ended = true
	}
	a.mu.Unlock()
	a.close(ended)
	return taken
}

// grow adds n to what a connection holds; false if there is no room for it, or it is ended.
func (a *Account) grow(c *Connection, n int64) bool {
	a.mu.Lock()
	taken, ended := a.take(c, n)
	a.mu.Unlock()
	a.close(ended)
	return taken
}

// shrink gives n back.
func (a *Account) shrink(c *Connection, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.held -= n
	if c.ended {
		a.ending -= n
		return
	}
	a.used -= n
	c.holder.held -= n
}

// end counts a connection as one that ends; false if it did so before.
func (a *Account) end(c *Connection) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.endLocked(c)
}

func (a *Account) endLocked(c *Connection) bool {
	if c.ended {
		return false
	}
	c.ended = true
	a.used -= c.held
	a.ending += c.held
	c.holder.held -= c.held
	a.leave(c)
	return true
}

// trust moves a connection to the peers that keep what they have, whatever others ask for.
func (a *Account) trust(c *Connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.ended || c.holder.trusted {
		return
	}
	c.holder.held -= c.held
	a.leave(c)
	c.holder = a.holder(trustedPeers)
	c.holder.trusted = true
	c.holder.held += c.held
	c.holder.connections[c] = struct{}{}
}

func (a *Account) holder(address string) *holder {
	if a.holders == nil {
		a.holders = map[string]*holder{}
	}
	h := a.holders[address]
	if h == nil {
		h = &holder{address: address, connections: map[*Connection]struct{}{}}
		a.holders[address] = h
	}
	return h
}

func (a *Account) leave(c *Connection) {
	delete(c.holder.connections, c)
	if len(c.holder.connections) == 0 {
		delete(a.holders, c.holder.address)
	}
}

// take makes room for n and adds it to what a connection holds. It returns the connections that are to be closed for that.
func (a *Account) take(c *Connection, n int64) (taken bool, ended []*Connection) {
	if c.ended || a.used+a.ending+n > 2*a.Limit {
		return false, nil
	}
	for a.used+n > a.Limit {
		victim := a.victim(c, n)
		if victim == nil {
			return false, ended
		}
		a.endLocked(victim)
		ended = append(ended, victim)
	}
	c.held += n
	a.used += n
	c.holder.held += n
	return true, ended
}

// victim is the connection that ends so that another one may hold n more, nil if none has to. It is one of the address
// that holds the most, or else one of the same address without a request. Of an address that holds as much as this one
// then, a connection that was answered stays.
func (a *Account) victim(c *Connection, n int64) *Connection {
	least := c.holder.held + n
	if c.holder.trusted {
		least = 0
	}
	var most *Connection
	for _, h := range a.holders {
		if h == c.holder || h.trusted || h.held < least || h.held == least && most != nil {
			continue
		}
		if first := h.first(nil); h.held > least || !first.answered {
			most, least = first, h.held
		}
	}
	if most != nil {
		return most
	}
	if own := c.holder.first(c); own != nil && !own.active {
		return own
	}
	return nil
}

// first is the connection that ends first: one without requests before one that has some, one that was never answered
// before one that was, the oldest of equal ones. It is not the one to leave out.
func (h *holder) first(but *Connection) (first *Connection) {
	for c := range h.connections {
		if c != but && (first == nil || c.before(first)) {
			first = c
		}
	}
	return first
}

func (c *Connection) before(other *Connection) bool {
	if c.active != other.active {
		return other.active
	}
	if c.answered != other.answered {
		return other.answered
	}
	return c.number < other.number
}

func (a *Account) close(ended []*Connection) {
	for _, c := range ended {
		a.refused()
		_ = c.Close() // the peer may have closed it
	}
}

func (a *Account) refused() {
	if a.Refused != nil {
		a.Refused()
	}
}
