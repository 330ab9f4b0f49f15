// Package ruleid has the IDs that answers name and that are in no table of rules, defaults
// or policies. "dra-steward explain" has a section for each.
package ruleid

import "regexp"

// What the mutating webhook and lint say about an object.
const (
	// FieldDropped reports a field that the API server removes.
	FieldDropped = "field-dropped"
)

// What the webhook says about a write in addition to findings of rules.
const (
	// GuardImpact reports what a taint rule or a drain affects now.
	GuardImpact = "guard-impact"
	// GuardWindow refuses a write that exceeds the thresholds together with the evictions
	// that began within the window.
	GuardWindow = "guard-window"
	// GuardError reports that the impact of a write cannot be counted.
	GuardError = "guard-error"
	// PatchEffect reports what a patch changes in the devices that exist.
	PatchEffect = "patch-effect"
	// PolicyError reports that policies could not be evaluated.
	PolicyError = "policy-error"
	// PolicyConfigMap refuses a ConfigMap with policies that are not valid.
	PolicyConfigMap = "policy-config-map"
)

// What the webhook says of a request that it does not check.
const (
	RequestAddress  = "request-address"
	RequestBusy     = "request-busy"
	RequestDeadline = "request-deadline"
	RequestSize     = "request-size"
	RequestError    = "request-error"
)

// ForceDeletion is the rule about pods that are deleted by force. The webhook names it where
// it does not know whether the rule applies.
const ForceDeletion = "pod-force-deletion"

// DriverPod is the rule about pods of drivers. The webhook names it where it does not know
// whether the rule applies.
const DriverPod = "driver-pod-in-use"

var policyCode = regexp.MustCompile(`^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$`)

// IsPolicy reports whether the rule of a finding is the code of a policy.
func IsPolicy(id string) bool { return policyCode.MatchString(id) }
