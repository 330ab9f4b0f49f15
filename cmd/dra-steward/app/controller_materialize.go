package app

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/materializer"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// addMaterialize lets the leader touch the slices that are not what patches make of them,
// if the options say so.
func (o controllerOptions) addMaterialize(e *eviction, config *rest.Config, registry prometheus.Registerer, log logr.Logger) error {
	mode := materializer.Mode(o.patches)
	if mode != materializer.Materialize && mode != materializer.Restore {
		return mode.Validate()
	}
	metrics, err := materializer.NewTouchMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	touch, err := materializer.NewTouch(config)
	if err != nil {
		return err
	}
	elsewhere, err := materializer.NewElsewhere(config)
	if err != nil {
		return err
	}
	ledgers := &materializer.Ledgers{}
	e.evictor.Tracker.AddEventHandler(ledgers.Handler(time.Now))
	e.toucher = materializer.NewToucher(materializer.TouchOptions{
		View: e.evictor.Tracker, Mode: mode, Touch: touch, Elsewhere: elsewhere, Acceptable: review.AcceptableSlice, Ledgers: ledgers,
		PoolsPerSecond: o.poolsPerSecond, Metrics: metrics, Logger: log,
	})
	e.beside = append(e.beside, func(ctx context.Context) error { return e.toucher.Run(ctx) })
	return nil
}
