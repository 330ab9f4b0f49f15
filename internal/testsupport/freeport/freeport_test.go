package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestLoopback(t *testing.T) {
	for range 100 {
		address, err := Loopback()
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		if port, err := strconv.Atoi(text); err != nil || port < lowest || port >= firstEphemeral() {
			t.Errorf("port %s, %v: want one from %d to %d", text, err, lowest, firstEphemeral()-1)
		}
	}
}
