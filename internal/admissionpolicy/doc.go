// Package admissionpolicy writes policies as ValidatingAdmissionPolicies, which the API
// server evaluates itself: a guard that needs no webhook and has no answer to wait for.
//
// The file admission.yaml next to a policy.rego says in CEL when an object violates the
// policy, or why CEL cannot express it. [Export] makes of that, of the modes, parameters
// and exemptions of a site a policy with its binding for each code, and tells what is
// left out. Nothing is read from a cluster and nothing is applied.
package admissionpolicy
