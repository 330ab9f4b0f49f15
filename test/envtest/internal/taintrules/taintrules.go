// Package taintrules has what tests write into DeviceTaintRules of any minor.
package taintrules

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// Preview is the effect that does nothing; Kubernetes 1.34 has none, and there it is the one
// that evicts no pods.
func Preview(cluster *envtest.Cluster) resourceapi.DeviceTaintEffect {
	if cluster.Minor() == "1.34" {
		return resourceapi.DeviceTaintEffectNoSchedule
	}
	return resourceapi.DeviceTaintEffectNone
}
