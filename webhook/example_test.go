package webhook_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// A driver that brings its own webhook server can bring ours along.
func Example() {
	dir, err := os.MkdirTemp("", "tls")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := webhook.SelfSigned(dir, []string{"localhost", "127.0.0.1"}); err != nil {
		fmt.Println(err)
		return
	}
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		fmt.Println(err)
		return
	}
	log := logr.FromSlogHandler(slog.DiscardHandler)
	reviewer := func() review.Reviewer { return review.Reviewer{} }
	server := &webhook.Server{
		Mutating:   webhook.Mutating(reviewer, webhook.Options{Log: log, Metrics: metrics}),
		Validating: webhook.Validating(reviewer, webhook.Options{Log: log, Metrics: metrics}),
		CertDir:    dir,
		Log:        log,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stop() // a real program stops later
	fmt.Println("ended with", server.Serve(ctx, listener))
	// Output: ended with <nil>
}
