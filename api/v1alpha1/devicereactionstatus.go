package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReactionDevicesMax is how many devices the status of a reaction lists.
const ReactionDevicesMax = 256

// DeviceReactionStatus is what a reaction finds and does. It is all that a restarted controller
// knows about the reaction.
//
// +kubebuilder:object:generate=true
type DeviceReactionStatus struct {
	// ObservedGeneration is the generation of the reaction that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Acting, Paused, Flapping and, with spec.prove, Proven.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Counts are numbers of devices.
	// +optional
	Counts ReactionCounts `json:"counts,omitempty,omitzero"`
	// Devices are the devices that are sick, were sick within the last hour, or have a drain of
	// the reaction. At most 256 are listed; counts.sick is the number of all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Devices []ReactionDevice `json:"devices,omitempty"`
}

// ReactionCounts are numbers of devices.
//
// +kubebuilder:object:generate=true
type ReactionCounts struct {
	// Sick is how many selected devices have the cause.
	// +optional
	Sick int32 `json:"sick"`
	// Waiting is how many sick ones have no drain of the reaction, Draining how many have one that
	// has not come to its end, and Drained how many have one that has.
	// +optional
	Waiting int32 `json:"waiting"`
	// +optional
	Draining int32 `json:"draining"`
	// +optional
	Drained int32 `json:"drained"`
}

// A ReactionDevice is what a reaction knows of a device.
//
// +kubebuilder:object:generate=true
type ReactionDevice struct {
	DeviceName `json:",inline"`

	// State is Sick, Waiting, Draining, Drained, Acknowledged or Healthy.
	// +required
	State ReactionState `json:"state"`
	// Cause is the cause, such as "taint example.com/xid=79:NoSchedule of the driver". A device that was
	// acknowledged after its cause had gone has none, until it becomes sick again.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Cause string `json:"cause,omitempty"`
	// SickSince is when the cause was first seen; unset while the device does not have it.
	// +optional
	SickSince *metav1.Time `json:"sickSince,omitempty"`
	// HealthySince is when the cause was first absent; unset while the device has the cause.
	// +optional
	HealthySince *metav1.Time `json:"healthySince,omitempty"`
	// Drain is the name of the DeviceDrain, DrainUID its UID once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Drain string `json:"drain,omitempty"`
	// +optional
	DrainUID types.UID `json:"drainUID,omitempty"`
	// Changes is how often the device became sick or healthy until LastChange, less one for each
	// ten minutes between two changes.
	// +optional
	Changes int32 `json:"changes,omitempty"`
	// +optional
	LastChange *metav1.Time `json:"lastChange,omitempty"`
	// Proof is the last proof of the device.
	// +optional
	Proof *ReactionProof `json:"proof,omitempty"`
	// Restart is the pod of the driver that the reaction has deleted for the drain.
	// +optional
	Restart *ReactionRestart `json:"restart,omitempty"`
	// Message is the reason why the device waits, or that of its acknowledgement.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ReactionProof is a proof of a device.
//
// +kubebuilder:object:generate=true
type ReactionProof struct {
	// State is Running, Passed, Failed or Unprovable.
	// +required
	State ReactionProofState `json:"state"`
	// Attempt numbers the Jobs of the drain.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Job is the name of the Job, JobUID its UID once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Job string `json:"job,omitempty"`
	// +optional
	JobUID types.UID `json:"jobUID,omitempty"`
	// StartTime is when the attempt began, EndTime when its result was known.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Message is the result with the last line of the log, in which control characters are escaped.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ReactionRestart is a pod of a driver that a reaction has deleted.
//
// +kubebuilder:object:generate=true
type ReactionRestart struct {
	// Pod is the name of the pod, UID its UID.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`
	// +required
	UID types.UID `json:"uid"`
	// Node is the node of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// Time is when it was decided.
	// +required
	Time metav1.Time `json:"time"`
	// GoneTime is when the last pod of the driver left the node; unset while there is one.
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`
}

// ReactionProofState is the state of a proof.
//
// +kubebuilder:validation:Enum=Running;Passed;Failed;Unprovable
type ReactionProofState string

// The states of a proof.
const (
	// ProofRunning has a Job that has not ended.
	ProofRunning ReactionProofState = "Running"
	// ProofPassed has a Job all of whose runs have succeeded.
	ProofPassed ReactionProofState = "Passed"
	// ProofFailed has a Job that has failed or has not ended in time; the message has the reason.
	ProofFailed ReactionProofState = "Failed"
	// ProofUnprovable: no claim can be sure to get this device; the message has the reason.
	ProofUnprovable ReactionProofState = "Unprovable"
)

// ReactionState is where a device is on its way from sick to used again.
//
// +kubebuilder:validation:Enum=Sick;Waiting;Draining;Drained;Acknowledged;Healthy
type ReactionState string

// The states of a device.
const (
	// ReactionSick has the cause for a shorter time than spec.when.for.
	ReactionSick ReactionState = "Sick"
	// ReactionWaiting has it for longer, and has no drain; the message has the reason.
	ReactionWaiting ReactionState = "Waiting"
	// ReactionDraining has a drain that has not come to its end.
	ReactionDraining ReactionState = "Draining"
	// ReactionDrained has a drain that has, and is cordoned.
	ReactionDrained ReactionState = "Drained"
	// ReactionAcknowledged is left alone until the cause that it had then has been gone for spec.end.after:
	// a user has acknowledged it, or deleted its drain. Without a cause, it becomes sick as any device.
	ReactionAcknowledged ReactionState = "Acknowledged"
	// ReactionHealthy had the cause within the last hour.
	ReactionHealthy ReactionState = "Healthy"
)

// The conditions of a reaction.
const (
	// ReactionActing is True in the mode Act, while drains can be created.
	ReactionActing = "Acting"
	// ReactionPaused is True while the reaction creates no drain and has paused its own.
	ReactionPaused = "Paused"
	// ReactionFlapping is True while a device becomes sick and healthy again and again.
	ReactionFlapping = "Flapping"
	// ReactionProven is True while all devices whose proof was started have passed it.
	ReactionProven = "Proven"
)

// Reasons of the condition Paused.
const (
	// PausedBrake: more devices are sick than the brake allows.
	PausedBrake = "Brake"
	// PausedGuard: the next drain, with the evictions of the last minutes, exceeds the
	// thresholds of the guard.
	PausedGuard = "Guard"
)
