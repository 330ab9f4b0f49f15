// Package capacitymetrics counts, once a minute, how many devices are left of each driver and
// class, and how many claims fit, and publishes the numbers as metrics. It writes nothing.
package capacitymetrics

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

const (
	// period is the time between two counts. While they take long, it is as long as the share of
	// one in twenty of the time asks for.
	period = time.Minute
	share  = 20
	// retry is the time between two looks at whether the cluster has been read.
	retry = time.Second
	// limit is the most time of a count, in which the numbers of the last one stay.
	limit = 30 * time.Second
)

// Options of a controller.
type Options struct {
	// Ready is nil once the cluster has been read.
	Ready func() error
	// Cluster returns the cluster now.
	Cluster func() capacity.Cluster
	Metrics *Metrics
	Logger  logr.Logger
}

// A Controller counts devices.
type Controller struct {
	Options
	// said is the last failure in the log.
	said string
}

// New prepares a controller.
func New(o Options) *Controller { return &Controller{Options: o} }

// Run counts until ctx ends. The numbers end with it: another replica has them then.
func (c *Controller) Run(ctx context.Context) error {
	defer c.Metrics.set(nil)
	for {
		timer := time.NewTimer(c.next(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// next counts if the cluster has been read, and returns how long to wait.
func (c *Controller) next(ctx context.Context) time.Duration {
	if c.Ready() != nil {
		return retry
	}
	begin := time.Now()
	bounded, cancel := context.WithDeadline(ctx, begin.Add(limit))
	summary, err := c.Cluster().Summarize(bounded, maxRows)
	cancel()
	took := time.Since(begin)
	switch {
	case err == nil:
		c.said = ""
		c.Metrics.set(&counted{Summary: summary, at: begin, took: took})
	case ctx.Err() == nil:
		c.report(fmt.Errorf("after %s: %w", took.Round(time.Millisecond), err))
	}
	return max(period, share*took) - took
}

// report logs a failure once, until there is another one.
func (c *Controller) report(err error) {
	if err.Error() != c.said {
		c.said = err.Error()
		c.Logger.Error(err, "cannot count the devices that are left; retrying")
	}
}
