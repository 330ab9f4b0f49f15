package server_test

import (
	"os"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/testattack"
)

// TestMemoryOfConnections: a process with the memory of the chart's container withstands what clients do with
// connections, and answers others meanwhile. DRA_STEWARD_LONG attacks every endpoint in all ways, and for longer.
func TestMemoryOfConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set: this test opens thousands of connections for 20 s; make test runs it")
	}
	p := start(t)
	program := testattack.Program{PID: p.pid, Limit: limit, Targets: p.targets("/validate")}
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		program.Withstand(t, testattack.Force{Addresses: 200, Connections: 600}, 2*time.Second, testattack.Costliest())
		return
	}
	program.Targets = p.targets("/validate", "/mutate", "/guard", "/pods", "/validate/slices")
	for _, addresses := range []int{1, 200} {
		program.Withstand(t, testattack.Force{Addresses: addresses, Connections: 2000}, 6*time.Second, testattack.All())
	}
}

// targets are the ports of the process, with these paths of the webhook.
func (p *process) targets(paths ...string) []testattack.Target {
	targets := []testattack.Target{{Address: p.health, Path: "/readyz", Plain: true}, {Address: p.metrics, Path: "/metrics", Plain: true}}
	for _, path := range paths {
		targets = append(targets, testattack.Target{Address: p.address, Path: path})
	}
	return targets
}
