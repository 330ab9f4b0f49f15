package policy_test

import (
	"context"
	"fmt"
	"testing/fstest"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// few is a policy of a site, in the form in which a ConfigMap or a folder has it.
func few() policy.Collection {
	return policy.Collection{Name: "site", Files: fstest.MapFS{"few/policy.rego": {Data: []byte(`# METADATA
# title: A claim has few requests
# description: Claims of this site have at most two requests.
# custom:
#   code: EXAMPLE-001
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [requests]
package dra.custom.few

deny contains violation if {
	count(input.claim.requests) > 2
	violation := {"paths": ["spec.devices.requests"], "message": "at most two requests are allowed here"}
}
`)}}}
}

func requesting(n int) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "training"}}
	for i := range n {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: fmt.Sprint("request-", i), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
		})
	}
	return claim
}

// A site adds a policy of its own.
func ExampleEngine_Evaluate() {
	ctx := context.Background()
	set, err := policy.Compile(ctx, few())
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := policy.NewEngine(set, policy.Settings{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range []int{2, 3} {
		decision := engine.Evaluate(ctx, policy.Request{Kind: "ResourceClaim", Namespace: "ml", Name: "training", Object: requesting(n)})
		fmt.Println(n, len(decision.Messages), decision.Err())
		for _, m := range decision.Messages {
			fmt.Println(m.Mode, m.Code, m.Path, m.Message)
		}
	}
	// Output:
	// 2 0 <nil>
	// 3 1 <nil>
	// deny EXAMPLE-001 spec.devices.requests at most two requests are allowed here
}

// A site turns a policy into a warning without changing it.
func ExampleNewEngine() {
	set, err := policy.Compile(context.Background(), few())
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := policy.NewEngine(set, policy.Settings{Modes: map[string]policy.Mode{"EXAMPLE-001": policy.Warn}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.Mode("EXAMPLE-001", "ml"))
	// Output: warn
}

// What is wrong with a policy has a file, a line and a column.
func ExampleProblems() {
	_, err := policy.Compile(context.Background(), policy.Collection{Name: "site", Files: fstest.MapFS{
		"broken/policy.rego": {Data: []byte("package dra.custom.broken\n\ndeny contains violation if {\n")},
	}})
	for _, problem := range policy.Problems(err) {
		fmt.Println(problem.File, problem.Line)
	}
	// Output:
	// site/broken/policy.rego 4
}

// The default library documents each of its policies.
func ExampleLibrary() {
	set, err := policy.Parse(context.Background(), policy.Library())
	if err != nil {
		fmt.Println(err)
		return
	}
	metadata, found := set.Policy("DRA-CLAIM-001")
	fmt.Println(found, metadata.Title, metadata.Mode)
	// Output: true A claim asks for admin access warn
}

// Modes are ordered from the weakest.
func ExampleModes() {
	fmt.Println(policy.Modes())
	// Output:
	// [off audit warn deny]
}
