package daemon

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterBuildInfo registers the metric with the version of the program.
func RegisterBuildInfo(registerer prometheus.Registerer) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dra_steward_build_info",
		Help: "1 for the version of dra-steward and of Go with which it was built.",
	}, []string{"version", "go_version"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	return registerer.Register(build)
}
