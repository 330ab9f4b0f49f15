// Package admissionpolicy writes policies as ValidatingAdmissionPolicies, which the API
// server evaluates itself: they need no webhook and do not wait for its answer.
//
// The file admission.yaml next to a policy.rego has the policy in CEL, or the reason why CEL
// cannot express it. [Export] combines it with the modes, parameters and exemptions of a site
// into a policy with its binding for each code, and reports what it leaves out. It reads no
// cluster and applies nothing.
package admissionpolicy
