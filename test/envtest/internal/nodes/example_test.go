package nodes_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

// A node for many pods, on which deleted pods live for a tenth of their grace
// period.
func ExampleStart() {
	config := &rest.Config{Host: "https://127.0.0.1:6443"} // as Cluster.Config returns it
	n, err := nodes.Start(context.Background(), config, nodes.Options{
		Names: []string{"big"},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("1000"),
			corev1.ResourceMemory: resource.MustParse("4Ti"),
			corev1.ResourcePods:   resource.MustParse("10000"),
		},
		Grace: 0.1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Stop()
}
