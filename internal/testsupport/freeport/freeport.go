// Package freeport finds ports for programs that tests start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

const (
	// lowest is above the ports that programs have by default.
	lowest = 15000
	// ephemeral is the first port that Linux gives by default to connections and to listeners that ask for any.
	ephemeral = 32768
	attempts  = 100
)

// Loopback returns an address on 127.0.0.1 without a listener. The system gives its port to nothing that asks for any port, so
// that it is still free when a program listens there.
func Loopback() (string, error) {
	first := firstEphemeral()
	if first < lowest+1000 {
		return "", fmt.Errorf("the system gives out ports from %d on: less than 1000 ports from %d on are left for programs that tests start; raise net.ipv4.ip_local_port_range", first, lowest)
	}
	var last error
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(first-lowest))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return address, listener.Close()
		}
		last = err
	}
	return "", fmt.Errorf("no free port in %d attempts: %w", attempts, last)
}

func firstEphemeral() (first int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return ephemeral
	}
	if _, err := fmt.Sscan(string(text), &first); err != nil {
		return ephemeral
	}
	return first
}
