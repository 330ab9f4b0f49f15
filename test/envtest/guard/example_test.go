package guard_test

import (
	"context"
	"fmt"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// A real API server that dra-steward guards refuses a rule that would evict every pod
// with a device.
func Example() {
	ctx := context.Background()
	cluster, err := envtest.Start(ctx, envtest.Options{Kubectl: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Stop()
	steward, err := guard.Start(ctx, cluster, guard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer steward.Stop()

	out, _ := cluster.Kubectl(ctx, "create", "-f", "../../../examples/denied/evicts-everything.yaml").CombinedOutput()
	fmt.Print(string(out))
	// Output:
	// The DeviceTaintRule "node-2-firmware-now" is invalid: spec.deviceSelector: Required value: an empty selector with effect NoExecute evicts every pod of the cluster that uses a device; name a driver, pool or device (dra-steward rule taint-rule-everything)
}
