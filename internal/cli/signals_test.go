package cli_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli"
)

// TestUntilSignal: a command that does not look at its context ends within a second, and at once with the second
// signal. A server ends when it is done.
func TestUntilSignal(t *testing.T) {
	const server = 10 * time.Second
	for _, test := range []struct {
		name    string
		args    []string
		signals int
		code    int
		ended   bool
		least   time.Duration
		most    time.Duration
	}{
		{"no signal", []string{"lint"}, 0, 0, true, server, server},
		{"one", []string{"lint"}, 1, 2, false, 0, time.Second},
		{"two", []string{"lint"}, 2, 2, false, 0, 0},
		{"two to a flag", []string{"--help"}, 2, 2, false, 0, 0},
		{"two to a server", []string{"serve", "--cert-dir", "a"}, 2, 0, true, server, server},
		{"one to an agent", []string{"-v=1", "node", "watch"}, 1, 0, true, server, server},
		{"one to a controller", []string{"controller"}, 1, 0, true, server, server},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, begin := make(chan os.Signal, 2), time.Now()
				for range test.signals {
					signals <- os.Interrupt
				}
				code, ended := cli.UntilSignal(test.args, signals, func(context.Context) int {
					<-time.After(server) // computes
					return 0
				})
				took := time.Since(begin)
				<-time.After(server) // synctest wants the command to end
				if code != test.code || ended != test.ended || took < test.least || took > test.most {
					t.Errorf("code %d, ended %t, took %s", code, ended, took)
				}
			})
		})
	}
}

// TestUntilSignalEnds: a command that ends with its context has its own exit code.
func TestUntilSignalEnds(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- os.Interrupt
	if code, ended := cli.UntilSignal(nil, signals, func(ctx context.Context) int { <-ctx.Done(); return 1 }); code != 1 || !ended {
		t.Errorf("code %d, ended %t", code, ended)
	}
}
