package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// DeviceReactionKind and DeviceReactionResource name the kind in manifests and in paths of the
// API.
const (
	DeviceReactionKind     = "DeviceReaction"
	DeviceReactionResource = "devicereactions"
)

// ReactionLabel is on the DeviceDrains of a DeviceReaction; its value is the name of the
// reaction.
const ReactionLabel = Group + "/reaction"

// Annotations of the DeviceDrains and Jobs of a DeviceReaction.
const (
	// AcknowledgedAnnotation is on a drain whose device may be used again: the reason, as
	// "dra-steward acknowledge --reason" writes it.
	AcknowledgedAnnotation = Group + "/acknowledged"
	// PausedByAnnotation is on a drain that its reaction has paused: the name of the reaction.
	PausedByAnnotation = Group + "/paused-by"
	// DeviceAnnotation is on the Job of a proof: the device.
	DeviceAnnotation = Group + "/device"
)

// ConditionDomain is the domain of the attributes by which the expression of a CauseNodeCondition
// sees the condition.
const ConditionDomain = "condition." + Group

// ProofClaim is the name by which the containers of a proof refer to the device.
const ProofClaim = "device"

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
	// Selector selects the published devices that the reaction is about. If not set, all of them.
	// +optional
	Selector *DrainSelector `json:"selector,omitempty"`
	// Then is how a sick device is drained.
	// +optional
	Then ReactionDrain `json:"then,omitempty,omitzero"`
	// Brake limits how many devices are out of use at a time because of the reaction.
	// +optional
	Brake ReactionBrake `json:"brake,omitempty,omitzero"`
	// Prove is a test of a drained device. If not set, there is none.
	// +optional
	Prove *ReactionProve `json:"prove,omitempty"`
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
// +kubebuilder:validation:XValidation:rule="(has(self.taint) ? 1 : 0) + (has(self.nodeCondition) ? 1 : 0) + (has(self.deviceHealth) ? 1 : 0) + (has(self.bindingConditions) ? 1 : 0) == 1",message="must have exactly one of taint, nodeCondition, deviceHealth and bindingConditions"
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
	// BindingConditions are conditions that a device must have before a pod is bound to its node
	// (KEP-5007), and that have failed. It is known only while a claim has the device: a device that
	// was sick stays sick until a pod is bound with it.
	// +optional
	BindingConditions *CauseBindingConditions `json:"bindingConditions,omitempty"`
	// For is how long the cause must last without a break, from 5s to 24h. Defaults to 1m.
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
	// Value of the taint. If not set, any matches.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value *string `json:"value,omitempty"`
	// Effect of the taint. If not set, any matches.
	// +optional
	// +kubebuilder:validation:Enum=None;NoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
	// From is where the taint is: Driver, in the slice as its driver published it, or Rule, in a
	// DeviceTaintRule. If not set, either matches.
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
	// Status of the condition. Defaults to True.
	// +optional
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status string `json:"status,omitempty"`
	// Reason of the condition. If not set, any matches.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Devices is a CEL expression that selects the devices of the node that the condition is about.
	// It is that of a selector of claims; the domain condition.dra-steward.io of the attributes has
	// the strings type, reason and message of the condition, at most 1024 bytes each. If not set, all
	// devices of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Devices string `json:"devices,omitempty"`
}

// CauseBindingConditions selects failed allocations by the conditions of their devices.
//
// +kubebuilder:object:generate=true
type CauseBindingConditions struct {
	// Types are those of the failure conditions (bindingFailureConditions of the device). Defaults
	// to all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=316
	Types []string `json:"types,omitempty"`
}

// CauseDeviceHealth selects devices by the health that pods and claims report.
//
// +kubebuilder:object:generate=true
type CauseDeviceHealth struct {
	// Status is the health. Defaults to Unhealthy.
	// +optional
	// +kubebuilder:validation:Enum=Unhealthy;Unknown
	Status string `json:"status,omitempty"`
}

// ReactionDrain is how a sick device is drained. Its fields are those of a DeviceDrain.
//
// +kubebuilder:object:generate=true
type ReactionDrain struct {
	// CordonOnly keeps new pods away and evicts none: the drain is paused.
	// +optional
	CordonOnly bool `json:"cordonOnly,omitempty"`

	DrainSettings `json:",inline"`
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
	// DevicesPerPool is the limit for each pool. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	DevicesPerPool *int32 `json:"devicesPerPool,omitempty"`
	// PercentOfDriver is the limit for the devices that each driver publishes, rounded down, and at
	// least one device. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	PercentOfDriver *int32 `json:"percentOfDriver,omitempty"`
	// Devices is the limit for all devices, with those of the drains of other reactions. Defaults
	// to 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Devices *int32 `json:"devices,omitempty"`
}

// ReactionProve is a test of a drained device: a Job whose claim gets exactly this device. The Job
// runs in the namespace that the chart names (controller.reactions.proofs.namespace). The author of
// the reaction must be allowed to create Jobs there.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || (duration(self.timeout) >= duration('10s') && duration(self.timeout) <= duration('24h'))",message="timeout must be at least 10s and at most 24h"
type ReactionProve struct {
	// DeviceClassName is the DeviceClass of the claim. Its selectors must select the device.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeviceClassName string `json:"deviceClassName"`
	// Runs is how many pods must succeed, one after the other. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Runs *int32 `json:"runs,omitempty"`
	// Timeout is for all runs together, from 10s to 24h. Defaults to 15m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Template is the template of the pods (v1 PodTemplateSpec), at most 32 KiB. At least one
	// container has the device as resources.claims: [{name: device}]. The reaction sets
	// resourceClaims, serviceAccountName, restartPolicy and the node.
	// +required
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
}

// ReactionTemplateMax is how many bytes the template of a proof has at most.
const ReactionTemplateMax = 32 << 10

// ReactionEnd is when a device is used again.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.after) || (duration(self.after) >= duration('5s') && duration(self.after) <= duration('720h'))",message="after must be at least 5s and at most 720h"
// +kubebuilder:validation:XValidation:rule="!has(self.restartDriver) || !self.restartDriver || has(self.driverPods)",message="restartDriver needs driverPods"
type ReactionEnd struct {
	// Uncordon is OnAcknowledgement, the default, which keeps the cordon until a user runs
	// "dra-steward acknowledge" or deletes the drain, or WhenHealthy, which also lifts it when the
	// cause has been gone for the time in after and, with spec.prove, the device has passed its proof.
	// +optional
	Uncordon ReactionUncordon `json:"uncordon,omitempty"`
	// After is how long the cause must be gone without a break, from 5s to 720h. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	After *metav1.Duration `json:"after,omitempty"`
	// DriverPods are the pods of the driver, for a driver that takes a taint back only when it
	// restarts. The message of a drained device then names the pod of its node.
	// +optional
	DriverPods *ReactionDriverPods `json:"driverPods,omitempty"`
	// RestartDriver deletes this pod once the device is drained and, with spec.prove, has passed its
	// proof while the taint lasts: once for each drain, and one pod of the reaction at a time. The
	// author of the reaction must be allowed to delete pods in the namespace of the driver.
	// +optional
	RestartDriver bool `json:"restartDriver,omitempty"`
}

// ReactionDriverPods selects the pods of a driver, of which each node has one.
//
// +kubebuilder:object:generate=true
type ReactionDriverPods struct {
	// Namespace of the pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// MatchLabels are labels that the pods have, 1 to 8.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	MatchLabels map[string]string `json:"matchLabels"`
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

// ProofTemplate decodes the template of a proof, with an error for a field that Kubernetes does not
// know.
func ProofTemplate(p *ReactionProve) (*corev1.PodTemplateSpec, error) {
	if n := len(p.Template.Raw); n > ReactionTemplateMax {
		return nil, fmt.Errorf("has %d bytes: must have at most %d", n, ReactionTemplateMax)
	}
	decoder := json.NewDecoder(bytes.NewReader(p.Template.Raw))
	decoder.DisallowUnknownFields()
	template := &corev1.PodTemplateSpec{}
	if err := quantity.Scan(p.Template.Raw, template); err != nil {
		return nil, fmt.Errorf("has a number that cannot be read: %w", err)
	}
	if err := decoder.Decode(template); err != nil {
		return nil, fmt.Errorf("must be a v1 PodTemplateSpec: %w", err)
	}
	return template, nil
}
