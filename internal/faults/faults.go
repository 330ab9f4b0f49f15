// Package faults has the known faults of Kubernetes that dra-steward can set off.
package faults

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// A Fault is a known fault of some versions of Kubernetes.
type Fault struct {
	// Reference is the issue or pull request that describes it.
	Reference string
	// Component has the fault in versions from From on, until it was fixed in Fixed.
	Component, From, Fixed string
	// Trigger is what sets it off.
	Trigger Trigger
	// Effect is what happens then, Remedy what prevents it.
	Effect, Remedy string
}

// A Trigger is an action of dra-steward that can set off a fault.
type Trigger string

// RuleExists: a DeviceTaintRule exists, as for taint and for the cordon of a drain.
const RuleExists Trigger = "a DeviceTaintRule exists"

// Known are all known faults.
func Known() []Fault {
	return []Fault{
		{
			Reference: "kubernetes#139651", Component: "kube-scheduler", From: "1.36.0", Fixed: "1.36.3",
			Trigger: RuleExists,
			Effect:  "with the feature gate DRADeviceTaintRules it panics when a DeviceTaintRule exists and a ResourceSlice changes",
			Remedy:  "upgrade kube-scheduler to 1.36.3 first",
		},
	}
}

// Of returns the faults of a version of Kubernetes, as the API server names it, that a
// trigger sets off. For text that is no version there are none.
func Of(of string, trigger Trigger) (faults []Fault) {
	is, err := version.ParseGeneric(of)
	if err != nil {
		return nil
	}
	for _, fault := range Known() {
		if fault.Trigger == trigger && is.AtLeast(version.MustParseGeneric(fault.From)) && is.LessThan(version.MustParseGeneric(fault.Fixed)) {
			faults = append(faults, fault)
		}
	}
	return faults
}

// String says in a sentence what happens, and what prevents it.
func (f Fault) String() string {
	return fmt.Sprintf("%s %s to before %s: %s (%s); %s", f.Component, f.From, f.Fixed, f.Effect, f.Reference, f.Remedy)
}
