package assets_test

import (
	"context"
	"fmt"
	"os"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// The API server of Kubernetes 1.36 with its etcd, built if necessary.
func ExampleGet() {
	set, err := assets.Get(context.Background(), assets.Options{
		Kubernetes: "1.36",
		Binaries:   []string{assets.Etcd, assets.APIServer},
		Output:     os.Stderr,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.Path(assets.APIServer))
}
