package review_test

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// A program that writes claims can ask what dra-steward would say before it asks the
// API server.
func Example() {
	reviewer, err := review.New(v1alpha1.StewardConfiguration{Limits: v1alpha1.Limits{DevicesPerClaim: 8}})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := reviewer.Review(review.Request{
		Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"),
		Object: []byte(`{"metadata": {"name": "training"}, "spec": {"devices": {"requests": [
			{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 9}}]}}}`),
		Now: time.Now(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range answer.Changes {
		fmt.Println("set", change.Pointer)
	}
	for _, finding := range answer.Findings {
		fmt.Printf("%v: %s: %s\n", finding.Severity, finding.Path, finding.Message)
	}
	// Output:
	// set /metadata/finalizers
	// error: spec.devices.requests: Invalid value: 9: the total number of requested devices must not exceed 8
}
