package clusterread

import (
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/faults"
)

// WarnOfFaults warns of the known faults of the cluster's version that a trigger sets off. The
// other components usually have the version of the API server. One that does not tell its
// version gives no warning: the command itself reports what it cannot do.
func WarnOfFaults(streams cmdutil.Streams, config *rest.Config, trigger faults.Trigger) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return
	}
	info, err := client.ServerVersion()
	if err != nil {
		return
	}
	for _, fault := range faults.Of(info.GitVersion, trigger) {
		fmt.Fprintf(streams.Err, "warning: the API server is %s: %s\n", info.GitVersion, fault)
	}
}
