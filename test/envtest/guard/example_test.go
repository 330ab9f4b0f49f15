package guard_test

import (
	"context"
	"fmt"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// A real API server that dra-steward guards refuses a claim that no scheduler could ever
// allocate.
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

	out, _ := cluster.Kubectl(ctx, "create", "-f", "../../../examples/denied/too-many-devices-for-a-claim.yaml").CombinedOutput()
	fmt.Print(string(out))
	// Output:
	// Warning: spec.devices.requests[gpus].exactly.deviceClassName: Not found: "gpu.example.com" (dra-steward rule class-exists)
	// The ResourceClaim "whole-rack" is invalid: spec.devices.requests: Invalid value: 40: the total number of requested devices must not exceed 32 (dra-steward rule claim-devices-max)
}
