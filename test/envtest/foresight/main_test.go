// Package foresight_test predicts what a change does to a world, makes the change, and
// compares the prediction with what kube-scheduler and kube-controller-manager do.
package foresight_test

import (
	"os"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest"
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
		Kubernetes: "1.37", ControllerManager: true, Scheduler: true, DeviceTaintRules: true, SchedulerConfiguration: configuration,
		FeatureGates:          map[string]bool{"GenericWorkload": true},
		RuntimeConfig:         map[string]bool{"scheduling.k8s.io/v1beta1": true},
		ControllerManagerArgs: map[string][]string{"kube-api-qps": {"300"}, "kube-api-burst": {"500"}},
		SchedulerArgs:         map[string][]string{"kube-api-qps": {"300"}, "kube-api-burst": {"500"}},
	}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}
