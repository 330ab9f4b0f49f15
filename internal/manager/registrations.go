package manager

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/controllers/capacitymetrics"
	"github.com/dra-steward/dra-steward/internal/controllers/certificate"
	"github.com/dra-steward/dra-steward/internal/controllers/devicedrain"
	"github.com/dra-steward/dra-steward/internal/controllers/devicehistory"
	"github.com/dra-steward/dra-steward/internal/controllers/devicereaction"
	"github.com/dra-steward/dra-steward/internal/controllers/deviceroll"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/controllers/patchstatus"
	"github.com/dra-steward/dra-steward/internal/controllers/policystatus"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// RegisterMetrics registers the metrics of all controllers, for the page that lists them.
func RegisterMetrics(r prometheus.Registerer) error {
	var errs []error
	for _, register := range []func(prometheus.Registerer) error{
		func(r prometheus.Registerer) error { _, err := tracker.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := evictor.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := patchstatus.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := materialize.NewResyncMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := policystatus.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := certificate.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := devicedrain.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := devicereaction.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := deviceroll.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := capacitymetrics.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := devicehistory.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := NewLeaderMetrics(r); return err },
		func(r prometheus.Registerer) error { return NewClaimMetrics(r, nil, nil) },
		func(r prometheus.Registerer) error { return NewDeviceMetrics(r, nil, nil) },
	} {
		errs = append(errs, register(r))
	}
	return errors.Join(errs...)
}
