package toleration_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// Of several matching tolerations, the shortest counts.
func ExampleEvaluator_Evaluate_seconds() {
	taint := resourceapi.DeviceTaint{Key: "example.com/repair", Effect: resourceapi.DeviceTaintEffectNoExecute}
	var tolerations []resourceapi.DeviceToleration
	for _, seconds := range []int64{3600, 300} {
		tolerations = append(tolerations, resourceapi.DeviceToleration{
			Key: "example.com/repair", Operator: resourceapi.DeviceTolerationOpExists,
			Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: ptr.To(seconds),
		})
	}
	period := toleration.Evaluator{}.Evaluate(tolerations, taint)
	fmt.Println(period.Tolerated, *period.Seconds, period.Forever())
	// Output: true 300 false
}

// A toleration with the operator Equal compares the value.
func ExampleEvaluator_Tolerates() {
	toleratesXID := resourceapi.DeviceToleration{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpEqual, Value: "xid-79"}
	for _, value := range []string{"xid-79", "xid-48"} {
		taint := resourceapi.DeviceTaint{Key: "example.com/broken", Value: value, Effect: resourceapi.DeviceTaintEffectNoSchedule}
		fmt.Println(value, toleration.Evaluator{}.Tolerates(toleratesXID, taint))
	}
	// Output:
	// xid-79 true
	// xid-48 false
}
