package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeviceReactionKind and DeviceReactionResource name the kind in manifests and in paths of the
// API.
const (
	DeviceReactionKind     = "DeviceReaction"
	DeviceReactionResource = "devicereactions"
)

// ReactionLabel is on the DeviceDrains of a DeviceReaction; its value is the name of the
// reaction.
const ReactionLabel = Group + "/reaction"

// Annotations of the DeviceDrains of a DeviceReaction.
const (
	// AcknowledgedAnnotation is on a drain whose device may be used again: the reason, as
	// "dra-steward acknowledge --reason" writes it.
	AcknowledgedAnnotation = Group + "/acknowledged"
	// PausedByAnnotation is on a drain that its reaction has paused: the name of the reaction.
	PausedByAnnotation = Group + "/paused-by"
)

// A DeviceReaction drains devices that are sick. While a device has the cause, such as a taint
// of its driver or a condition of its node, the reaction keeps a DeviceDrain of that device,
// within limits for how many devices are out of use at a time.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=dreact,categories=dra
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name=Sick,type=integer,JSONPath=`.status.counts.sick`
// +kubebuilder:printcolumn:name=Draining,type=integer,JSONPath=`.status.counts.draining`
// +kubebuilder:printcolumn:name=Drained,type=integer,JSONPath=`.status.counts.drained`
// +kubebuilder:printcolumn:name=Paused,type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].reason`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Paused")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="the name must have at most 40 bytes, since the names of the drains begin with it"
type DeviceReaction struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which devices are sick, and what happens to them.
	// +required
	Spec DeviceReactionSpec `json:"spec"`
	// Status says which devices are sick now. It is written by dra-steward, and it is all
	// that the controller remembers.
	// +optional
	Status DeviceReactionStatus `json:"status,omitempty"`
}

// DeviceReactionList is a list of DeviceReactions.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
type DeviceReactionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeviceReaction `json:"items"`
}

// DeviceReactionSpec is what an administrator wants.
//
// +kubebuilder:object:generate=true
type DeviceReactionSpec struct {
	// Mode is Observe, the default, which writes into the status which devices it drains in the
	// mode Act, or Act, which creates the drains.
	// +optional
	Mode ReactionMode `json:"mode,omitempty"`
	// When is the cause that makes a device sick.
	// +required
	When ReactionCause `json:"when"`
	// Selector selects the published devices that the reaction is about. Absent is all.
	// +optional
	Selector *DrainSelector `json:"selector,omitempty"`
	// Then is how a sick device is drained.
	// +optional
	Then ReactionDrain `json:"then,omitempty,omitzero"`
	// Brake limits how many devices are out of use at a time because of the reaction.
	// +optional
	Brake ReactionBrake `json:"brake,omitempty,omitzero"`
	// End is when a device is used again.
	// +optional
	End ReactionEnd `json:"end,omitempty,omitzero"`
}

// ReactionMode is what a reaction does.
//
// +kubebuilder:validation:Enum=Observe;Act
type ReactionMode string

// What a reaction does.
const (
	// ReactionObserve writes what it finds into the status only.
	ReactionObserve ReactionMode = "Observe"
	// ReactionAct drains sick devices.
	ReactionAct ReactionMode = "Act"
)

// ReactionCause is what makes a device sick.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="(has(self.taint) ? 1 : 0) + (has(self.nodeCondition) ? 1 : 0) + (has(self.deviceHealth) ? 1 : 0) == 1",message="must have exactly one of taint, nodeCondition and deviceHealth"
// +kubebuilder:validation:XValidation:rule="!has(self.for) || (duration(self.for) >= duration('5s') && duration(self.for) <= duration('24h'))",message="for must be at least 5s and at most 24h"
type ReactionCause struct {
	// Taint is a taint of the device.
	// +optional
	Taint *CauseTaint `json:"taint,omitempty"`
	// NodeCondition is a condition of the node that has the device.
	// +optional
	NodeCondition *CauseNodeCondition `json:"nodeCondition,omitempty"`
	// DeviceHealth is the health of the device in the status of the pods that have it (KEP-4680), or
	// in that of their claims. It is known only while a pod has the device: a device that was sick stays
	// sick until a pod reports that it is healthy.
	// +optional
	DeviceHealth *CauseDeviceHealth `json:"deviceHealth,omitempty"`
	// For is how long the cause must stand without a break, from 5s to 24h. Absent is 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	For *metav1.Duration `json:"for,omitempty"`
}

// CauseTaint selects taints of devices. The taints of DeviceDrains and keys of dra-steward.io are
// never a cause.
//
// +kubebuilder:object:generate=true
type CauseTaint struct {
	// Key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('dra-steward.io/')",message="must not be a key of dra-steward.io: drains write these taints themselves"
	Key string `json:"key"`
	// Value of the taint. Absent is any.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value *string `json:"value,omitempty"`
	// Effect of the taint. Absent is any.
	// +optional
	// +kubebuilder:validation:Enum=None;NoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
	// From is where the taint is: Driver, in the slice as its driver published it, or Rule, in a
	// DeviceTaintRule. Absent is either.
	// +optional
	// +kubebuilder:validation:Enum=Driver;Rule
	From TaintSource `json:"from,omitempty"`
}

// TaintSource is where a taint is.
type TaintSource string

// Where a taint is.
const (
	TaintFromDriver TaintSource = "Driver"
	TaintFromRule   TaintSource = "Rule"
)

// CauseNodeCondition selects conditions of nodes, such as those of node-problem-detector. All
// selected devices of the node are sick; devices that are not bound to one node never are.
//
// +kubebuilder:object:generate=true
type CauseNodeCondition struct {
	// Type of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// Status of the condition. Absent is True.
	// +optional
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status string `json:"status,omitempty"`
	// Reason of the condition. Absent is any.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// CauseDeviceHealth selects devices by the health that pods and claims report.
//
// +kubebuilder:object:generate=true
type CauseDeviceHealth struct {
	// Status is the health. Absent is Unhealthy.
	// +optional
	// +kubebuilder:validation:Enum=Unhealthy;Unknown
	Status string `json:"status,omitempty"`
}

// ReactionDrain is how a sick device is drained. Its fields are those of a DeviceDrain.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || !has(self.deadline.time)",message="the deadline must have after: a time is that of one drain"
type ReactionDrain struct {
	// CordonOnly keeps new pods away and evicts none: the drain is paused.
	// +optional
	CordonOnly bool `json:"cordonOnly,omitempty"`
	// WithPartitions drains the devices, too, that consume counters of the same counter sets.
	// +optional
	WithPartitions bool `json:"withPartitions,omitempty"`
	// Via is how pods are asked to leave.
	// +optional
	Via DrainVia `json:"via,omitempty"`
	// EvictionsPerMinute bounds the rate of evictions. Absent is 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6000
	EvictionsPerMinute *int32 `json:"evictionsPerMinute,omitempty"`
	// MaxPerNamespace bounds how many pods of one namespace are on their way out at a time.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNamespace *int32 `json:"maxPerNamespace,omitempty"`
	// Order is the eviction order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Order []DrainOrder `json:"order,omitempty"`
	// PodsWithoutController is the treatment of pods that no controller replaces.
	// +optional
	PodsWithoutController PodsWithoutController `json:"podsWithoutController,omitempty"`
	// Windows are the times in which pods are evicted. Absent is at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`
	// Deadline is the maximum duration of the drain, and what happens at its end.
	// +optional
	Deadline *DrainDeadline `json:"deadline,omitempty"`
}

// ReactionBrakeMax is the most that a brake allows.
const ReactionBrakeMax = 256

// ReactionBrake limits how many devices are out of use at a time: devices that are sick, and
// those that a drain of the reaction keeps. The smallest limit counts. More pause the reaction:
// it creates no drain and pauses its own, until fewer are sick, or the annotation
// dra-steward.io/acknowledged-impact of the reaction allows more, such as "devices<=4". Then it
// drains one after the other.
//
// +kubebuilder:object:generate=true
type ReactionBrake struct {
	// DevicesPerPool is the limit for each pool. Absent is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	DevicesPerPool *int32 `json:"devicesPerPool,omitempty"`
	// PercentOfDriver is the limit for the devices that each driver publishes, rounded down, and at
	// least one device. Absent is 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	PercentOfDriver *int32 `json:"percentOfDriver,omitempty"`
	// Devices is the limit for all devices, with those of the drains of other reactions. Absent
	// is 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Devices *int32 `json:"devices,omitempty"`
}

// ReactionEnd is when a device is used again.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.after) || (duration(self.after) >= duration('5s') && duration(self.after) <= duration('720h'))",message="after must be at least 5s and at most 720h"
type ReactionEnd struct {
	// Uncordon is OnAcknowledgement, the default, which keeps the cordon until somebody runs
	// "dra-steward acknowledge" or deletes the drain, or WhenHealthy, which also lifts it when the
	// cause has been gone for the time in after.
	// +optional
	Uncordon ReactionUncordon `json:"uncordon,omitempty"`
	// After is how long the cause must be gone without a break, from 5s to 720h. Absent is 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	After *metav1.Duration `json:"after,omitempty"`
}

// ReactionUncordon is when the cordon of a device is lifted.
//
// +kubebuilder:validation:Enum=OnAcknowledgement;WhenHealthy
type ReactionUncordon string

// When the cordon of a device is lifted.
const (
	UncordonOnAcknowledgement ReactionUncordon = "OnAcknowledgement"
	UncordonWhenHealthy       ReactionUncordon = "WhenHealthy"
)
