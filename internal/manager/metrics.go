package manager

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/daemon"
)

// addMetrics registers the metrics of claims, devices and the leader.
func (e *eviction) addMetrics(registry prometheus.Registerer) error {
	var err error
	if e.leading, err = NewLeaderMetrics(registry); err != nil {
		return err
	}
	return errors.Join(daemon.RegisterBuildInfo(registry), NewClaimMetrics(registry, e.claims.GetStore(), time.Now),
		NewDeviceMetrics(registry, e.claims.GetStore(), devicesOf(e.evictor.Tracker)))
}

// stuckAfter is how long the controllers of Kubernetes get to release a claim.
const stuckAfter = 5 * time.Minute

// stuck reports whether only the finalizer of the scheduler holds a claim that has been in
// deletion for long: no pod uses it, and no controller releases it.
func stuck(claim *resourceapi.ResourceClaim, now time.Time) bool {
	return claim.DeletionTimestamp != nil && now.Sub(claim.DeletionTimestamp.Time) > stuckAfter &&
		len(claim.Status.ReservedFor) == 0 && slices.Equal(claim.Finalizers, []string{resourceapi.Finalizer})
}

// NewClaimMetrics counts the claims of a store when it is scraped.
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

// NewLeaderMetrics registers the metric of the active replica.
func NewLeaderMetrics(registerer prometheus.Registerer) (prometheus.Gauge, error) {
	leading := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dra_steward_controller_leading",
		Help: "1 while this replica of the controller is active.",
	})
	return leading, registerer.Register(leading)
}
