// Package policy evaluates the Rego policies that decide who may tolerate, ask for,
// taint and configure what.
//
// Compile makes a Set of policies that compile, agree with the schema of their input
// and pass their own tests; a Set never changes. docs/policy-authoring.md
// describes how to write a policy. The package knows no client and no clock.
package policy
