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
	// Conditions are Acting, Paused and Flapping.
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
	// Cause is the cause, such as "taint example.com/xid=79:NoSchedule of the driver".
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Cause string `json:"cause,omitempty"`
	// SickSince is since when the device has the cause without a break; absent while it has not.
	// +optional
	SickSince *metav1.Time `json:"sickSince,omitempty"`
	// HealthySince is since when the device has the cause no longer; absent while it has it.
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
	// Message is the reason why the device waits, or that of its acknowledgement.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

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
	// ReactionAcknowledged is left alone until its cause has gone: somebody has acknowledged it, or
	// deleted its drain.
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
)

// Reasons of the condition Paused.
const (
	// PausedBrake: more devices are sick than the brake allows.
	PausedBrake = "Brake"
	// PausedGuard: the next drain, with the evictions of the last minutes, exceeds the
	// thresholds of the guard.
	PausedGuard = "Guard"
)
