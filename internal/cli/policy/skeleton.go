package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// skeleton returns the files of a new policy, by name: the policy, and tests that pass. It
// fails if the code is not valid.
func skeleton(code string) (map[string]string, error) {
	if !regexp.MustCompile(`^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$`).MatchString(code) || len(code) > 63 {
		return nil, fmt.Errorf("code %q: must be like ACME-GPU-001, at most 63 characters", code)
	}
	name := strings.ToLower(strings.ReplaceAll(code, "-", "_"))
	fill := strings.NewReplacer("CODE", code, "NAME", name)
	return map[string]string{policyFile: fill.Replace(skeletonPolicy), testFile: fill.Replace(skeletonTests)}, nil
}

// The files of a policy.
const (
	policyFile = "policy.rego"
	testFile   = "policy_test.rego"
)

const skeletonPolicy = `# METADATA
# title: A request asks for too many devices
# description: |
#   Say here what goes wrong without this policy, and what the author of a claim can do.
# custom:
#   code: CODE
#   severity: medium
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       devices:
#         type: integer
#         minimum: 1
#         default: 8
#         description: The most devices that one request may ask for.
package dra.custom.NAME

deny contains violation if {
	some request in input.claim.requests
	request.count > input.parameters["CODE"].devices
	violation := {
		"paths": [request.path],
		"field": "count",
		"message": sprintf("asks for %d devices, of at most %d", [request.count, input.parameters["CODE"].devices]),
		"hint": "ask for fewer devices",
	}
}
`

const skeletonTests = `package dra.custom.NAME_test

import data.dra.custom.NAME

violations(count) := found if {
	found := NAME.deny with input.claim as {"requests": [{"count": count, "path": "spec.devices.requests[gpu].exactly"}]}
		with input.parameters as {"CODE": {"devices": 8}}
}

test_too_many_are_denied if {
	some violation in violations(9)
	violation.message == "asks for 9 devices, of at most 8"
}

test_as_many_as_allowed_pass if count(violations(8)) == 0
`
