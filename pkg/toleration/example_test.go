package toleration_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// The API documentation and the eviction controller of Kubernetes 1.37 read a toleration
// without an effect differently.
func ExampleEvaluator_Evaluate() {
	taint := resourceapi.DeviceTaint{Key: "gpu.example.com/unhealthy", Effect: resourceapi.DeviceTaintEffectNoExecute}
	tolerations := []resourceapi.DeviceToleration{{Key: "gpu.example.com/unhealthy", Operator: resourceapi.DeviceTolerationOpExists}}

	documented := toleration.Evaluator{}
	fmt.Println("as documented:", documented.Evaluate(tolerations, taint).Forever())

	inTree := toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}
	fmt.Println("in-tree controller:", inTree.Evaluate(tolerations, taint).Tolerated)
	// Output:
	// as documented: true
	// in-tree controller: false
}

func ExampleTaintText() {
	fmt.Println(toleration.TaintText(resourceapi.DeviceTaint{Key: "gpu.example.com/unhealthy", Value: "ecc", Effect: resourceapi.DeviceTaintEffectNoSchedule}))
	// Output: gpu.example.com/unhealthy=ecc:NoSchedule
}
