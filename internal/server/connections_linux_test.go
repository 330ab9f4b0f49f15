package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// announced is the length of the body that a hostile connection announces.
const announced = 4 << 20

// TestMemoryOfConnections: a process with the memory of the chart's container survives
// connections that stall, that are slow, that fill what they announce, and that are many, and
// streams that stall or are reset at once. Afterwards it answers the claim of another address.
// TestConnections in package webhook shows that it does so meanwhile, too: here the connections
// take the processor from both sides.
func TestMemoryOfConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set: this test opens thousands of connections for 40 s; make test runs it")
	}
	p := start(t)
	for _, attack := range []struct {
		name        string
		connections int
		use         func(context.Context, net.Conn)
	}{
		{"announce 4 MiB and stall", 600, stall},
		{"send 4 MiB but the last byte", 600, fill},
		{"send 4 KiB every 100 ms", 600, trickle},
		{"are many and send nothing", 3000, func(ctx context.Context, _ net.Conn) { <-ctx.Done() }},
		{"have 100 streams that announce 4 MiB and stall", 60, func(ctx context.Context, c net.Conn) { stallStreams(ctx, c, 100) }},
		{"open and reset streams as fast as they can", 8, resetStreams},
	} {
		t.Run(attack.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			var running sync.WaitGroup
			for i := range attack.connections {
				running.Go(func() { p.connect(ctx, i, attack.use) })
			}
			client, answered := p.client(t), 0
			for i := 0; ctx.Err() == nil; i++ {
				if p.send(client, "other", i) == nil {
					answered++
				}
			}
			running.Wait()
			if err := p.send(client, "other", -1); err != nil {
				t.Errorf("the claim of another address, afterwards: %v", err)
			}
			now, peak := p.memory(t, "VmRSS"), p.memory(t, "VmHWM")
			t.Logf("%d connections: %d MiB, %d MiB at the peak until now, limit %d MiB; %d claims were answered meanwhile", attack.connections, now>>20, peak>>20, limit>>20, answered)
			if peak >= limit {
				t.Errorf("peak %d MiB, limit %d MiB", peak>>20, limit>>20)
			}
		})
	}
}

// connect opens the i-th connection, from one of eight addresses, and uses it until ctx ends.
// The server may refuse it.
func (p *process) connect(ctx context.Context, i int, use func(context.Context, net.Conn)) {
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%8))}},
		Config:    &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}},
	}
	connection, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) })()
	use(ctx, connection)
}

// stall, fill and trickle speak HTTP/2, as an API server does, with one stream.
func stall(ctx context.Context, c net.Conn) { stallStreams(ctx, c, 1) }

func fill(ctx context.Context, c net.Conn) {
	h, err := handshake(c)
	if err == nil {
		err = h.open(1)
	}
	for sent := 0; sent < announced-1 && err == nil; sent += chunk {
		err = h.data(ctx, 1, min(chunk, announced-1-sent))
	}
	<-ctx.Done()
}

func trickle(ctx context.Context, c net.Conn) {
	h, err := handshake(c)
	if err == nil {
		err = h.open(1)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for err == nil && ctx.Err() == nil {
		select {
		case <-tick.C:
			err = h.data(ctx, 1, 4<<10)
		case <-ctx.Done():
		}
	}
}

func stallStreams(ctx context.Context, c net.Conn, streams uint32) {
	h, err := handshake(c)
	for i := uint32(0); i < streams && err == nil; i++ {
		if err = h.open(2*i + 1); err == nil {
			err = h.data(ctx, 2*i+1, 512)
		}
	}
	<-ctx.Done()
}

func resetStreams(ctx context.Context, c net.Conn) {
	h, err := handshake(c)
	for i := uint32(0); err == nil && ctx.Err() == nil; i++ {
		if err = h.open(2*i + 1); err == nil {
			err = h.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
	}
}

// chunk is the largest frame that a server accepts unless it says otherwise.
const chunk = 16 << 10

// A peer is the client's side of an HTTP/2 connection.
type peer struct {
	framer *http2.Framer
	block  []byte

	mu   sync.Mutex
	room map[uint32]int // what the server lets a stream send; 0 is the connection
	more chan struct{}
}

func handshake(c net.Conn) (*peer, error) {
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/validate?timeout=30s"},
		{"content-type", "application/json"}, {"content-length", fmt.Sprint(announced)}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}); err != nil {
			return nil, err
		}
	}
	h := &peer{framer: http2.NewFramer(c, c), block: block.Bytes(), room: map[uint32]int{0: 64 << 10}, more: make(chan struct{}, 1)}
	go h.read()
	return h, h.framer.WriteSettings()
}

// read notes how much the server lets streams send, until the connection ends.
func (h *peer) read() {
	for {
		frame, err := h.framer.ReadFrame()
		if err != nil {
			return
		}
		if window, is := frame.(*http2.WindowUpdateFrame); is {
			h.mu.Lock()
			h.room[window.StreamID] += int(window.Increment)
			h.mu.Unlock()
			select {
			case h.more <- struct{}{}:
			default:
			}
		}
	}
}

func (h *peer) open(stream uint32) error {
	h.mu.Lock()
	h.room[stream] = 64<<10 - 1
	h.mu.Unlock()
	return h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.block, EndHeaders: true})
}

// data sends n spaces on a stream once the server lets it.
func (h *peer) data(ctx context.Context, stream uint32, n int) error {
	for !h.take(stream, n) {
		select {
		case <-h.more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.framer.WriteData(stream, false, bytes.Repeat([]byte(" "), n))
}

func (h *peer) take(stream uint32, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.room[0] < n || h.room[stream] < n {
		return false
	}
	h.room[0] -= n
	h.room[stream] -= n
	return true
}
