package manager

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
)

const (
	// leaseDuration, renewDeadline and retryPeriod are those of the Lease.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// fenceMargin is how long before another replica may take the Lease the leader stops: 12.5 s after it last
	// renewed it. An elector that runs gives up before that, after retryPeriod with its jitter and renewDeadline.
	fenceMargin = 2500 * time.Millisecond
	// fencePeriod is how often the leader checks that.
	fencePeriod = 250 * time.Millisecond
)

// A fence stops a leader whose process was stopped for longer than its Lease. The elector lets it
// lead for up to renewDeadline after it continues, while another replica leads.
type fence struct {
	// elector is nil without leader election.
	elector atomic.Pointer[leaderelection.LeaderElector]
}

// holds reports whether this replica has the Lease, and no other one may have taken it.
func (f *fence) holds() bool {
	elector := f.elector.Load()
	return elector == nil || elector.IsLeader() && elector.Check(-fenceMargin) == nil
}

// while returns a context that ends when the replica does not hold the Lease anymore.
func (f *fence) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go wait.UntilWithContext(ctx, func(context.Context) {
		if !f.holds() {
			cancel()
		}
	}, fencePeriod)
	return ctx, cancel
}

// around returns a configuration whose clients write only while the replica holds the Lease.
func (f *fence) around(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fencedClient{f, next} })
	return config
}

// fencedClient refuses the writes of a replica that does not hold the Lease.
type fencedClient struct {
	fence *fence
	next  http.RoundTripper
}

var errNoLease = errors.New("this replica does not hold the Lease")

func (c fencedClient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || c.fence.holds() {
		return c.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper closes it, also if it fails
	}
	return nil, errNoLease
}
