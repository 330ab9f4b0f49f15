package campaign

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A service is one address in front of the replicas of the webhook. Like a Service it connects to
// one that is ready; a connection ends with the process that it goes to.
type service struct {
	listener net.Listener
	backends []*replica
	next     atomic.Uint32
}

func newService(t *testing.T, backends []*replica) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{listener: listener, backends: backends}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			go s.forward(client)
		}
	}()
	return s
}

// address is where the API server finds it.
func (s *service) address() string { return s.listener.Addr().String() }

// forward copies between a client and the next replica that is ready and accepts.
func (s *service) forward(client net.Conn) {
	defer client.Close()
	from := int(s.next.Add(1))
	for i := range s.backends {
		r := s.backends[(from+i)%len(s.backends)]
		if !r.isEndpoint() {
			continue
		}
		server, err := net.DialTimeout("tcp", r.address, time.Second)
		if err != nil {
			continue
		}
		defer server.Close()
		ended := make(chan struct{}, 2)
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1]) // ends with either connection
				ended <- struct{}{}
			}()
		}
		<-ended
		return
	}
}
