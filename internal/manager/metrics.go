package manager

import (
	"context"
	"time"

	"slices"

	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// addMetrics counts claims that nobody releases, and tells who works.
func (e *eviction) addMetrics(registry prometheus.Registerer) error {
	leading, err := NewLeaderMetrics(registry)
	if err != nil {
		return err
	}
	e.beside = append(e.beside, func(ctx context.Context) error {
		leading.Set(1)
		defer leading.Set(0)
		<-ctx.Done()
		return nil
	})
	return NewClaimMetrics(registry, e.claims.GetStore(), time.Now)
}

// stuckAfter is how long the controllers of Kubernetes get to release a claim.
const stuckAfter = 5 * time.Minute

// stuck tells whether nothing but the finalizer of the scheduler holds a claim that is in
// deletion for long: no pod uses it, and nobody releases it.
func stuck(claim *resourceapi.ResourceClaim, now time.Time) bool {
	return claim.DeletionTimestamp != nil && now.Sub(claim.DeletionTimestamp.Time) > stuckAfter &&
		len(claim.Status.ReservedFor) == 0 && slices.Equal(claim.Finalizers, []string{resourceapi.Finalizer})
}

// NewClaimMetrics counts, when it is asked, the claims of a store.
func NewClaimMetrics(registerer prometheus.Registerer, claims cache.Store, now func() time.Time) error {
	return registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dra_steward_claims_stuck_in_deletion",
		Help: "ResourceClaims in deletion for more than 5 minutes that no pod uses and nothing holds but the finalizer " + resourceapi.Finalizer + ".",
	}, func() float64 {
		count := 0
		if claims == nil { // only described
			return 0
		}
		for _, object := range claims.List() {
			if claim, ok := object.(*resourceapi.ResourceClaim); ok && stuck(claim, now()) {
				count++
			}
		}
		return float64(count)
	}))
}

// NewLeaderMetrics tells which replica of the controller works.
func NewLeaderMetrics(registerer prometheus.Registerer) (prometheus.Gauge, error) {
	leading := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dra_steward_controller_leading",
		Help: "1 while this replica of the controller is active.",
	})
	return leading, registerer.Register(leading)
}
