package why

import (
	"cmp"
	"slices"
)

// A Kind names the cause of a pending pod or claim in one word.
type Kind string

const (
	// DriverGone: the pod cannot end, because a driver of its claims is gone from its node.
	DriverGone Kind = "DriverGone"
	// TemplateMissing: the ResourceClaimTemplate of the pod does not exist.
	TemplateMissing Kind = "TemplateMissing"
	// QuotaExceeded: a ResourceQuota refuses the claim of the pod.
	QuotaExceeded Kind = "QuotaExceeded"
	// AdminAccessRefused: the namespace is not allowed to request admin access.
	AdminAccessRefused Kind = "AdminAccessRefused"
	// CreationFailed: kube-controller-manager cannot create the claim for another reason.
	CreationFailed Kind = "CreationFailed"
	// ClaimMissing: the pod names a claim that does not exist, or is being deleted.
	ClaimMissing Kind = "ClaimMissing"
	// ClaimNamedTwice: the pod has one claim under two names, which kube-scheduler cannot
	// reserve.
	ClaimNamedTwice Kind = "ClaimNamedTwice"
	// SchedulingGate: the pod has scheduling gates.
	SchedulingGate Kind = "SchedulingGate"
	// SchedulerMissing: no scheduler of the pod's spec.schedulerName has processed it.
	SchedulerMissing Kind = "SchedulerMissing"
	// GroupIncomplete: the PodGroup does not have enough pods.
	GroupIncomplete Kind = "GroupIncomplete"
	// ClassMissing: a DeviceClass does not exist, ResourceUnknown: no DeviceClass is for
	// an extended resource.
	ClassMissing    Kind = "ClassMissing"
	ResourceUnknown Kind = "ResourceUnknown"
	// SelectorError: a selector fails on a device, and kube-scheduler stops.
	SelectorError Kind = "SelectorError"
	// TaintNotTolerated: suitable devices have taints.
	TaintNotTolerated Kind = "TaintNotTolerated"
	// IncompletePool: suitable devices are in pools that are not published completely.
	IncompletePool Kind = "IncompletePool"
	// WrongNode: suitable devices are on nodes where the pod cannot run.
	WrongNode Kind = "WrongNode"
	// PatchNotApplied: devices are suitable only with ResourceSlicePatches, which
	// kube-scheduler does not apply.
	PatchNotApplied Kind = "PatchNotApplied"
	// MatchAttribute and DistinctAttribute: a constraint excludes the combination.
	MatchAttribute    Kind = "MatchAttribute"
	DistinctAttribute Kind = "DistinctAttribute"
	// SharesTaken: other claims consume the capacity of a shared device, CountersTaken: the
	// counters of a partition, DevicesTaken: they have the devices.
	SharesTaken   Kind = "SharesTaken"
	CountersTaken Kind = "CountersTaken"
	DevicesTaken  Kind = "DevicesTaken"
	// CapacityTooLarge: no device has the requested capacity.
	CapacityTooLarge Kind = "CapacityTooLarge"
	// CountTooLarge: no node has as many devices as requested.
	CountTooLarge Kind = "CountTooLarge"
	// SelectorFalse: a selector of the request is true for no device.
	SelectorFalse Kind = "SelectorFalse"
	// NoDevices: the class selects no device.
	NoDevices Kind = "NoDevices"
	// Combination: the allocator finds no combination, and no single change allows one.
	Combination Kind = "Combination"
	// BindingCondition: the driver has not prepared an allocated device.
	BindingCondition Kind = "BindingCondition"
	// NodeResources: nodes with the devices have too little cpu, memory or the like.
	NodeResources Kind = "NodeResources"
	// NodeTaint, NodeUnschedulable, NodeSelector, NodePorts, VolumeElsewhere, TopologySpread, PodAffinity and
	// PodAntiAffinity: so kube-scheduler excludes the nodes with the devices. Volume: a volume of the pod cannot be used.
	NodeTaint         Kind = "NodeTaint"
	NodeUnschedulable Kind = "NodeUnschedulable"
	NodeSelector      Kind = "NodeSelector"
	NodePorts         Kind = "NodePorts"
	VolumeElsewhere   Kind = "VolumeElsewhere"
	TopologySpread    Kind = "TopologySpread"
	PodAffinity       Kind = "PodAffinity"
	PodAntiAffinity   Kind = "PodAntiAffinity"
	Volume            Kind = "Volume"
	// ClaimInUse: the claim has as many pods as a claim can have.
	ClaimInUse Kind = "ClaimInUse"
	// NotTried: a node is suitable, and kube-scheduler has not tried the pod since.
	NotTried Kind = "NotTried"
	// NotPrepared: the kubelet cannot prepare the devices. NotStarted: it has not started the pod for another reason.
	NotPrepared Kind = "NotPrepared"
	NotStarted  Kind = "NotStarted"
	// DeviceGone: the driver no longer publishes a device of the pod. Evicted: a taint evicts the running pod.
	DeviceGone Kind = "DeviceGone"
	Evicted    Kind = "Evicted"
	// Terminating: the pod is being deleted. Failed: it has failed.
	Terminating Kind = "Terminating"
	Failed      Kind = "Failed"
	// Unused: no pod uses the claim.
	Unused Kind = "Unused"
	// Unknown: the cause cannot be told with what was read.
	Unknown Kind = "Unknown"
)

// kinds are all in the order in which they are shown: a pod without its claim needs the
// claim first; a device that only needs a taint removed is closer than one that another
// claim has; a selector is in doubt last, because it states what the author wants.
func kinds() []Kind {
	return []Kind{
		DriverGone, TemplateMissing, QuotaExceeded, AdminAccessRefused, CreationFailed, ClaimMissing, ClaimNamedTwice,
		SchedulingGate, SchedulerMissing, GroupIncomplete,
		ClassMissing, ResourceUnknown, NoDevices, SelectorError,
		TaintNotTolerated, IncompletePool, WrongNode, PatchNotApplied, MatchAttribute, DistinctAttribute,
		SharesTaken, CapacityTooLarge, CountersTaken, DevicesTaken, CountTooLarge, SelectorFalse, Combination,
		BindingCondition, NodeTaint, NodeUnschedulable, NodeSelector, NodePorts, NodeResources, Volume, VolumeElsewhere, TopologySpread, PodAffinity, PodAntiAffinity, ClaimInUse,
		DeviceGone, NotPrepared, Evicted, Failed, Terminating, NotStarted, NotTried, Unused, Unknown,
	}
}

// first is how many of kinds are conditions that scheduling does not get past: no change
// of devices helps before these.
const first = 14

// A Cause is a reason why a pod or claim waits, and what changes it.
type Cause struct {
	Kind Kind `json:"kind"`
	// Claim is the one that it is about, empty for the pod.
	Claim   string `json:"claim,omitempty"`
	Message string `json:"message"`
	// Remedy is what changes it, in words. Command does it, if a command can.
	Remedy  string `json:"remedy,omitempty"`
	Command string `json:"command,omitempty"`
	// Sufficient is true if the claim can be allocated after this change alone.
	Sufficient bool `json:"sufficient,omitempty"`
	// Devices is the number of devices that it keeps from being allocated.
	Devices int `json:"devices,omitempty"`
}

// Partial reports whether the devices need more changes than this one.
func (c Cause) Partial() bool {
	i := slices.Index(kinds(), c.Kind)
	return !c.Sufficient && i >= first && i <= slices.Index(kinds(), Combination)
}

// Rank returns the causes in the order of their likelihood, each once: first what
// scheduling does not get past, then the changes that suffice alone, then the order of
// kinds.
func Rank(causes []Cause) []Cause {
	order := map[Kind]int{}
	for i, kind := range kinds() {
		order[kind] = i
	}
	place := func(c Cause) int {
		if i, known := order[c.Kind]; known {
			return i
		}
		return len(order)
	}
	late := func(c Cause) int {
		switch {
		case place(c) < first:
			return 0
		case c.Sufficient:
			return 1
		}
		return 2
	}
	ranked := slices.Clone(causes)
	slices.SortFunc(ranked, func(a, b Cause) int {
		return cmp.Or(
			cmp.Compare(late(a), late(b)), cmp.Compare(place(a), place(b)), cmp.Compare(b.Devices, a.Devices),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Remedy, b.Remedy), cmp.Compare(a.Command, b.Command),
		)
	})
	return slices.Compact(ranked)
}
