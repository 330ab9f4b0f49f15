package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// addMetrics counts claims that nobody releases, and tells who works.
func (e *eviction) addMetrics(registry prometheus.Registerer) error {
	leading, err := newLeaderMetrics(registry)
	if err != nil {
		return err
	}
	e.beside = append(e.beside, func(ctx context.Context) error {
		leading.Set(1)
		defer leading.Set(0)
		<-ctx.Done()
		return nil
	})
	return newClaimMetrics(registry, e.claims.GetStore(), time.Now)
}
