package envtest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Main starts a cluster, hands it to use, runs a package's tests and stops the
// cluster, also when interrupted or terminated. It returns the exit code for
// os.Exit. Without Options.Output, progress goes to standard error. Building what
// is missing counts against go test's timeout: see package assets.
func Main(m interface{ Run() int }, o Options, use func(*Cluster)) int {
	if o.Output == nil {
		o.Output = os.Stderr
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	cluster, err := Start(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	finished := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-finished:
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "envtest: interrupted, stopping the control plane")
			_ = cluster.Stop()
			os.Exit(130)
		}
	})
	use(cluster)
	code := m.Run()
	close(finished)
	watching.Wait()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
