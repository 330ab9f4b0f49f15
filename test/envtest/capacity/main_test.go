// Package capacity_test holds what capacity and fit predict against a real kube-scheduler: it
// places pods until one has no devices.
package capacity_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest"
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	options := envtest.Options{Scheduler: true, DeviceTaintRules: true}
	for i := range nodes {
		options.Nodes = append(options.Nodes, nodeName(i))
	}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}

// nodes is how many the cluster has.
const nodes = 4

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }
