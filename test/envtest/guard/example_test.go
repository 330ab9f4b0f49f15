package guard_test

import (
	"context"
	"fmt"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// A real API server that dra-steward guards refuses a claim with 17 tolerations.
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

	out, _ := cluster.Kubectl(ctx, "create", "-f", "../../../examples/denied/too-many-tolerations.yaml").CombinedOutput()
	fmt.Print(string(out))
	// Output:
	// The ResourceClaim "tolerates-everything" is invalid: spec.devices.requests[gpu].exactly.tolerations: Too many: 17: must have at most 16 items (dra-steward rule request-tolerations-max)
}
