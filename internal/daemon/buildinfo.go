package daemon

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/version"
)

// RegisterBuildInfo registers the metric with the version of the program.
func RegisterBuildInfo(registerer prometheus.Registerer) error {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dra_steward_build_info",
		Help: "1 for the version and commit of dra-steward, and the version of Go with which it was built.",
	}, []string{"version", "commit", "go_version"})
	v := version.Get()
	build.WithLabelValues(cmp.Or(v.Version, "unknown"), cmp.Or(v.Commit, "unknown"), v.GoVersion).Set(1)
	return registerer.Register(build)
}
