package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeviceRollStatus is the progress of a roll. It is all that a restarted controller knows about the
// roll.
//
// +kubebuilder:object:generate=true
type DeviceRollStatus struct {
	// ObservedGeneration is the generation of the roll that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Rolling, Held and Completed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Counts are numbers of nodes.
	// +optional
	Counts RollCounts `json:"counts,omitempty,omitzero"`
	// Nodes are those of the roll, in the order of their names.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Nodes []RollNode `json:"nodes,omitempty"`
	// Continued is the number in spec.continue that the roll has acted on.
	// +optional
	Continued int64 `json:"continued,omitempty"`
	// CanaryAcknowledged is true once a user has continued the roll after its canary.
	// +optional
	CanaryAcknowledged bool `json:"canaryAcknowledged,omitempty"`
	// StartTime is when the roll found its nodes.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the last node was done or left out.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// RollCounts are numbers of nodes.
//
// +kubebuilder:object:generate=true
type RollCounts struct {
	// Nodes is how many the roll has.
	// +optional
	Nodes int32 `json:"nodes"`
	// Done is how many are done, Skipped how many are left out or gone, InWork how many are in work,
	// and Failed how many have failed.
	// +optional
	Done int32 `json:"done"`
	// +optional
	Skipped int32 `json:"skipped,omitempty"`
	// +optional
	InWork int32 `json:"inWork,omitempty"`
	// +optional
	Failed int32 `json:"failed"`
}

// A RollNode is how far a node has come.
//
// +kubebuilder:object:generate=true
type RollNode struct {
	// Name of the node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// State is Waiting, Draining, Replacing, Working, Publishing, Proving, Restoring, Done, Failed,
	// Skipped, Gone or Undone.
	// +required
	State RollState `json:"state"`
	// Since is when the node came into the state.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// StartTime is when the roll began with the node, and CompletionTime when it was done, or when
	// nothing of the roll was left on it.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// FailedIn is the state in which the node failed.
	// +optional
	FailedIn RollState `json:"failedIn,omitempty"`
	// Drain is the name of the DeviceDrain, DrainUID its UID once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Drain string `json:"drain,omitempty"`
	// +optional
	DrainUID types.UID `json:"drainUID,omitempty"`
	// Cordoned is true once the roll has cordoned the node.
	// +optional
	Cordoned bool `json:"cordoned,omitempty"`
	// Pools are the pools of the node as they were before.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Pools []RollPool `json:"pools,omitempty"`
	// Replaced are the UIDs of the pods of the driver that are replaced.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Replaced []types.UID `json:"replaced,omitempty"`
	// ReadySince is when the new pods of the driver, or the work, were seen to be ready, and the node was Ready.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`
	// MissingDevices is how many devices fewer than before the driver publishes, if the node has failed
	// because of that.
	// +optional
	MissingDevices int32 `json:"missingDevices,omitempty"`
	// AcceptDevices is true once a user has continued the roll although the driver publishes fewer
	// devices than before, or devices that are not in the drain.
	// +optional
	AcceptDevices bool `json:"acceptDevices,omitempty"`
	// Message is the reason why the node waits, failed or was left out.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// A RollPool is a pool as its driver published it.
//
// +kubebuilder:object:generate=true
type RollPool struct {
	// Driver and Name are those of the pool.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Generation is that of the pool.
	// +required
	Generation int64 `json:"generation"`
	// Devices is how many devices of the node it has.
	// +required
	Devices int32 `json:"devices"`
}

// RollState is where a node is in a roll.
//
// +kubebuilder:validation:Enum=Waiting;Draining;Replacing;Working;Publishing;Proving;Restoring;Done;Failed;Skipped;Gone;Undone
type RollState string

// The states of a node, in their order.
const (
	// RollWaiting has not begun.
	RollWaiting RollState = "Waiting"
	// RollDraining has a DeviceDrain of the devices of the node.
	RollDraining RollState = "Draining"
	// RollReplacing has no consumers, and the pods of its driver are replaced.
	RollReplacing RollState = "Replacing"
	// RollWorking has no consumers, and waits until work on the node is done.
	RollWorking RollState = "Working"
	// RollPublishing waits until the devices are published as before.
	RollPublishing RollState = "Publishing"
	// RollProving runs the proof.
	RollProving RollState = "Proving"
	// RollRestoring takes back the cordon.
	RollRestoring RollState = "Restoring"
	// RollDone is in use again.
	RollDone RollState = "Done"
	// RollFailed has failed, and is cordoned; the roll begins no further node.
	RollFailed RollState = "Failed"
	// RollSkipped was left out by spec.skip.
	RollSkipped RollState = "Skipped"
	// RollGone is no longer a node of the cluster.
	RollGone RollState = "Gone"
	// RollUndone was in work when spec.undo was set, and is in use again.
	RollUndone RollState = "Undone"
)

// The conditions of a roll.
const (
	// RollRolling is True while nodes are in work.
	RollRolling = "Rolling"
	// RollHeld is True while the roll begins no further node, with the reason.
	RollHeld = "Held"
	// RollCompleted is True once all nodes are done, left out or gone.
	RollCompleted = "Completed"
)

// Reasons of the condition Held.
const (
	// HeldNodeFailed: a node has failed.
	HeldNodeFailed = "NodeFailed"
	// HeldCanary: the first nodes are done, and the roll waits until a user continues it.
	HeldCanary = "Canary"
	// HeldGuard: the drain of the next node exceeds the thresholds of the guard.
	HeldGuard = "Guard"
	// HeldNodes: no node is selected, or too many are.
	HeldNodes = "Nodes"
	// HeldWindow: no window of the drains is open.
	HeldWindow = "OutsideWindow"
	// HeldNotReady: the nodes that are left are not ready, or other rolls are at work on them; or a node that is done
	// is not Ready any more, or its driver is not.
	HeldNotReady = "NodesNotReady"
	// HeldUnknown: the devices or nodes cannot be read.
	HeldUnknown = "Unknown"
	// HeldPaused and HeldUndone: spec.paused and spec.undo.
	HeldPaused, HeldUndone = "Paused", "Undone"
)
