// Package faults has the known faults of Kubernetes that users of devices meet, by version.
package faults

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// A Fault is a known fault of some versions of Kubernetes.
type Fault struct {
	// Reference is the issue or pull request that describes it.
	Reference string `json:"reference"`
	// Component has the fault in these Versions.
	Component string  `json:"component"`
	Versions  []Range `json:"versions"`
	// Gate is the feature gate without which the component does not have the fault; empty if
	// there is none.
	Gate string `json:"gate,omitempty"`
	// Trigger is the action of dra-steward that sets it off; empty if there is none.
	Trigger Trigger `json:"-"`
	// Effect is what happens then, Remedy what prevents it.
	Effect string `json:"effect"`
	Remedy string `json:"remedy"`
}

// A Range is the versions from From on, until one in which the fault was Fixed. An empty
// Fixed means that no version of that minor, or of any later one, is known to have a fix.
type Range struct {
	From  string `json:"from"`
	Fixed string `json:"fixed,omitempty"`
}

// A Trigger is an action of dra-steward that can set off a fault.
type Trigger string

// RuleExists: a DeviceTaintRule exists, as for taint and for the cordon of a drain.
const RuleExists Trigger = "a DeviceTaintRule exists"

const (
	scheduler = "kube-scheduler"
	// withoutSelector is the fault about rules without a selector.
	withoutSelector = "kubernetes#141620"
)

// shares are the faults about devices that allow multiple allocations, and about distinctAttribute.
func shares() []Fault {
	return []Fault{
		{
			Reference: "kubernetes#139034", Component: scheduler, Versions: []Range{{"1.34.0", "1.36.2"}},
			Gate:   "DRAConsumableCapacity",
			Effect: "it allocates partitions that exclude each other if one of them allows multiple allocations",
			Remedy: "upgrade kube-scheduler to 1.36.2, which has pull request #139040; until then do not publish shared counters for such devices",
		},
		{
			Reference: "kubernetes#133705", Component: scheduler, Versions: []Range{{"1.34.0", "1.35.0"}},
			Gate:   "DRAConsumableCapacity",
			Effect: "it allocates no share of a device if the first device of the ResourceSlice has too little capacity left: pods wait although devices are free",
			Remedy: "upgrade kube-scheduler to 1.35; until then publish each device that allows multiple allocations in a ResourceSlice of its own, and request one device at a time",
		},
		{
			Reference: "kubernetes#135022", Component: scheduler, Versions: []Range{{"1.34.0", "1.35.0"}},
			Gate:   "DRAConsumableCapacity",
			Effect: "it ignores distinctAttribute: two devices of a claim can have the same value",
			Remedy: "upgrade kube-scheduler to 1.35; until then select devices by the value of the attribute, with a request for each value",
		},
		{
			Reference: "kubernetes#140438", Component: scheduler, Versions: []Range{{"1.34.0", "1.37.0"}},
			Gate:   "DRAConsumableCapacity",
			Effect: "it checks distinctAttribute incompletely if one request asks for several devices: two of them can have the same value",
			Remedy: "upgrade kube-scheduler to 1.37; until then write a request for each device",
		},
	}
}

// Known are all known faults of the versions that are supported. The versions are those of the
// source code: of the last that has the fault and of the first that does not.
func Known() []Fault {
	return slices.Concat([]Fault{
		{
			Reference: "kubernetes#139651", Component: scheduler, Versions: []Range{{"1.36.0", "1.36.3"}},
			Gate: "DRADeviceTaintRules", Trigger: RuleExists,
			Effect: "it panics when a DeviceTaintRule exists and a ResourceSlice changes",
			Remedy: "upgrade kube-scheduler to 1.36.3 first",
		},
		{
			Reference: "kubernetes#138882", Component: scheduler, Versions: []Range{{"1.35.0", "1.35.6"}, {"1.36.0", "1.36.2"}},
			Gate:   "DRAPartitionableDevices",
			Effect: "it panics when a request with allocationMode All selects a device that consumes counters",
			Remedy: "until it is upgraded, refuse allocationMode All: policy DRA-CLAIM-002",
		},
		{
			Reference: "kubernetes#136269", Component: scheduler, Versions: []Range{{"1.34.0", "1.34.4"}, {"1.35.0", "1.35.1"}},
			Effect: "it can allocate a device to two claims when it schedules many pods quickly",
			Remedy: "upgrade kube-scheduler; dra-steward report names devices that two claims hold",
		},
	}, shares(), []Fault{
		{
			Reference: "kubernetes#133366", Component: scheduler, Versions: []Range{{"1.34.0", "1.35.0"}},
			Gate:   "DRAExtendedResource",
			Effect: "it places pods that request deviceclass.resource.kubernetes.io/NAME without devices",
			Remedy: "upgrade kube-scheduler to 1.35; until then set extendedResourceName of the DeviceClass, and request that name",
		},
		{
			Reference: withoutSelector, Component: scheduler, Versions: []Range{{"1.34.0", "1.37.1"}},
			Gate:   "DRADeviceTaintRules",
			Effect: "a DeviceTaintRule without deviceSelector keeps pods from all devices, although it selects none",
			Remedy: "give the rule a selector, or delete it; dra-steward report names such rules",
		},
		{
			Reference: "kubernetes#141471", Component: scheduler, Versions: []Range{{From: "1.34.0"}},
			Effect: "after a pod was deleted by force, its devices are given to another pod while its containers can still run",
			Remedy: "do not delete pods with devices by force; forceDeletion.enabled of the chart lets the webhook refuse it",
		},
		{
			Reference: "kubernetes#135901", Component: "kubelet", Versions: []Range{{"1.34.0", "1.34.4"}, {"1.35.0", "1.35.1"}},
			Effect: "if one claim of a pod is prepared for another pod, it does not prepare the other claims: the containers do not start",
			Remedy: "upgrade the kubelet; until then name the claim that other pods share last in spec.resourceClaims",
		},
		{
			Reference: "kubernetes#141335", Component: "kubelet", Versions: []Range{{From: "1.34.0"}},
			Effect: "the answers of its PodResources API grow for as long as a driver fails to prepare a claim of a pod",
			Remedy: "delete the pod; clients with the usual limit of 16 MiB see no devices of that node, the node agent of dra-steward reports it from 4 MiB on",
		},
	})
}

// At returns the faults of a version of Kubernetes, as components name it, each with the one
// range that has the version. For text that is no version there are none.
func At(of string) (faults []Fault) {
	is, err := version.ParseGeneric(of)
	if err != nil {
		return nil
	}
	for _, fault := range Known() {
		for _, r := range fault.Versions {
			if is.AtLeast(version.MustParseGeneric(r.From)) && (r.Fixed == "" || is.LessThan(version.MustParseGeneric(r.Fixed))) {
				fault.Versions = []Range{r}
				faults = append(faults, fault)
			}
		}
	}
	return faults
}

// Of returns those that a trigger sets off.
func Of(of string, trigger Trigger) (faults []Fault) {
	for _, fault := range At(of) {
		if fault.Trigger == trigger {
			faults = append(faults, fault)
		}
	}
	return faults
}

// OfScheduler returns those of kube-scheduler that a newer version does not have, apart from
// the one about rules without a selector, of which [Rules] names the rules.
func OfScheduler(of string) (faults []Fault) {
	for _, fault := range At(of) {
		if fault.Component == scheduler && fault.Versions[0].Fixed != "" && fault.Reference != withoutSelector {
			faults = append(faults, fault)
		}
	}
	return faults
}

// Released reports whether a version is one of Kubernetes itself. The suffix of a vendor, as in
// v1.36.2-gke.1234, can mean that a fault is fixed there.
func Released(of string) bool { return of != "" && !strings.ContainsAny(of, "-+") }

// Rules names the DeviceTaintRules without a selector, in a cluster of which kube-scheduler takes
// them for rules about all devices.
func Rules(of string, rules iter.Seq[*resourceapi.DeviceTaintRule]) (notes []string) {
	for _, fault := range At(of) {
		if fault.Reference != withoutSelector {
			continue
		}
		for rule := range rules {
			if rule.Spec.DeviceSelector == nil {
				notes = append(notes, fmt.Sprintf("DeviceTaintRule %s has no deviceSelector: %s", rule.Name, fault))
			}
		}
	}
	slices.Sort(notes)
	return notes
}

// References names faults in a list.
func References(faults []Fault) string {
	var all []string
	for _, fault := range faults {
		all = append(all, fault.Reference)
	}
	return strings.Join(all, ", ")
}

// String says in a sentence what happens, and what prevents it.
func (f Fault) String() string {
	with := ""
	if f.Gate != "" {
		with = "with the feature gate " + f.Gate + " "
	}
	return fmt.Sprintf("%s %s: %s%s (%s); %s", f.Component, f.Versions[0], with, f.Effect, f.Reference, f.Remedy)
}

func (r Range) String() string {
	if r.Fixed == "" {
		return "since " + r.From
	}
	return r.From + " to before " + r.Fixed
}
