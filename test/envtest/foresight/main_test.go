// Package foresight_test predicts what a change does to a world, makes the change, and
// compares the prediction with what kube-scheduler and kube-controller-manager do.
package foresight_test

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// Variables of the tests.
const (
	// longVariable is set by make test-long.
	longVariable = "DRA_STEWARD_LONG"
	// seedVariable is the seed of the first world, and with worldsVariable of how many.
	seedVariable   = "DRA_STEWARD_SEED"
	worldsVariable = "DRA_STEWARD_WORLDS"
)

var cluster *envtest.Cluster

// newest is the minor that has PodGroups, oldest the first of those that are supported.
const (
	newest = "1.37"
	oldest = "1.34"
)

// minor is that of the control plane.
func minor() string {
	parts := strings.SplitN(cmp.Or(os.Getenv(assets.VersionVariable), assets.DefaultVersion), ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// configuration lets the scheduler try again soon: a world is quiet only when no pod waits for
// its turn.
const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
`

func TestMain(m *testing.M) {
	options := envtest.Options{
		ControllerManager: true, Scheduler: true, DeviceTaintRules: true, SchedulerConfiguration: configuration,
		ControllerManagerArgs: map[string][]string{"kube-api-qps": {"300"}, "kube-api-burst": {"500"}},
		SchedulerArgs:         map[string][]string{"kube-api-qps": {"300"}, "kube-api-burst": {"500"}},
	}
	switch minor() {
	case newest:
		options.FeatureGates = map[string]bool{"GenericWorkload": true}
		options.RuntimeConfig = map[string]bool{"scheduling.k8s.io/v1beta1": true}
	default: // what worlds have, and minors switch on one after the other
		options.FeatureGates = map[string]bool{"DRAConsumableCapacity": true, "DRAExtendedResource": true, "DRAPartitionableDevices": true}
	}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}
