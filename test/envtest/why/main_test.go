// Package why_test holds what `why`, `devices`, `fit` and `capacity` say against a real control plane: a
// kube-scheduler that places pods until one has no devices, and an API server that shows an asker only
// what it may see.
package why_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest"
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	options := envtest.Options{Scheduler: true, DeviceTaintRules: true,
		SchedulerArgs: map[string][]string{"authorization-always-allow-paths": {"/healthz,/readyz,/livez,/metrics"}}}
	for i := range nodes {
		options.Nodes = append(options.Nodes, nodeName(i))
	}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}

// nodes is how many the cluster has.
const nodes = 4

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }
