package envtest_test

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// A control plane with a scheduler and two nodes, for as long as main runs.
func Example() {
	ctx := context.Background()
	cluster, err := envtest.Start(ctx, envtest.Options{
		ControllerManager: true,
		Scheduler:         true,
		Nodes:             []string{"node-a", "node-b"},
		Output:            os.Stderr,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Stop()

	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, node := range nodes.Items {
		fmt.Println(node.Name)
	}
	// Output:
	// node-a
	// node-b
}
