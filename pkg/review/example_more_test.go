package review_test

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// A misspelt configuration is refused with the place of the mistake.
func ExampleNew() {
	_, err := review.New(v1alpha1.StewardConfiguration{Rules: map[string]v1alpha1.Rule{"device-taint-max": {Severity: "warning"}}})
	fmt.Println(err)
	// Output:
	// rules[device-taint-max]: Invalid value: "device-taint-max": there is no such rule; did you mean "device-taints-max"?
}

// A rule that a site sets to warning does not deny.
func ExampleReviewer_Review_warning() {
	reviewer, err := review.New(v1alpha1.StewardConfiguration{
		Limits: v1alpha1.Limits{DevicesPerClaim: 8},
		Rules:  map[string]v1alpha1.Rule{"claim-devices-max": {Severity: "warning"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := reviewer.Review(review.Request{
		Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"),
		Object: []byte(`{"metadata": {"name": "training"}, "spec": {"devices": {"requests": [
			{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 9}}]}}}`),
	})
	fmt.Println(err, answer.Denied())
	for _, finding := range answer.Findings {
		fmt.Println(finding.Severity, finding.Rule)
	}
	// Output:
	// <nil> false
	// warning claim-devices-max
}

// An object that no rule is about has an error of its own type, so that a caller can pass it on.
func ExampleUnknownKindError() {
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	_, err := review.Reviewer{}.Review(review.Request{Kind: pods, Object: []byte(`{}`)})
	var unknown review.UnknownKindError
	fmt.Println(errors.As(err, &unknown), unknown.Kind.Kind)
	// Output: true Pod
}
