package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// patience is the time that a command has to end by itself after the first signal.
const patience = 900 * time.Millisecond

// UntilSignal runs a command whose context ends with the first signal, and returns its exit code. A command that then
// still computes is left: it returns ended, soon after the first signal and at once after the second. Servers, which
// answer what they have accepted and give back their lease, take the time that they need.
func UntilSignal(args []string, signals <-chan os.Signal, run func(context.Context) int) (code int, ended bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan int, 1)
	go func() { done <- run(ctx) }()
	select {
	case code := <-done:
		return code, true
	case <-signals:
		cancel()
	}
	command := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if command >= 0 && slices.Contains([]string{"serve", "controller", "node"}, args[command]) {
		return <-done, true
	}
	select {
	case code := <-done:
		return code, true
	case <-signals:
	case <-time.After(patience):
	}
	return cmdutil.ExitFailed, false
}
