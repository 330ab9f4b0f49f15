// Package policies is the library of policies that ships with dra-steward: a folder
// for each, with policy.rego, policy_test.rego and admission.yaml. docs/policy-authoring.md says how
// one is written.
package policies

import "embed"

// Files holds the library.
//
//go:embed */*.rego */admission.yaml
var Files embed.FS

// InputSchema is the JSON schema of what a policy sees.
//
//go:embed input.schema.json
var InputSchema []byte
