package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceRollKind and DeviceRollResource name the kind in manifests and in paths of the API.
const (
	DeviceRollKind     = "DeviceRoll"
	DeviceRollResource = "devicerolls"
)

// RollLabel is on the DeviceDrains of a DeviceRoll, and on the pods and claims of its proofs; its
// value is the name of the roll.
const RollLabel = Group + "/roll"

// RollAnnotation is on a node that a DeviceRoll has cordoned; its value is the name of the roll. On a
// DeviceDrain of a roll, it is the name of the node.
const RollAnnotation = Group + "/roll"

const (
	// RollNodesMax is how many nodes a roll can have.
	RollNodesMax = 1000
	// RollAtATimeMax is how many nodes a roll works on at a time at most, in all.
	RollAtATimeMax = 32
)

// A DeviceRoll takes nodes through maintenance, consumers first and driver last: it drains the
// devices of a node, lets the pods of the driver be replaced or work on the node be done, waits for
// the devices to be published again, and goes on with the next node. It stops at the first node that
// fails.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=droll,categories=dra
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Driver,type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name=Nodes,type=integer,JSONPath=`.status.counts.nodes`
// +kubebuilder:printcolumn:name=Done,type=integer,JSONPath=`.status.counts.done`
// +kubebuilder:printcolumn:name=Failed,type=integer,JSONPath=`.status.counts.failed`
// +kubebuilder:printcolumn:name=Held,type=string,JSONPath=`.status.conditions[?(@.type=="Held")].reason`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Held")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="the name must have at most 40 bytes, since the names of the drains begin with it"
type DeviceRoll struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which nodes, and what is done to them. Driver, driverPods, nodeWork and nodes
	// cannot be changed.
	// +required
	Spec DeviceRollSpec `json:"spec"`
	// Status says how far the roll has come. It is written by dra-steward, and it is all that the
	// controller remembers.
	// +optional
	Status DeviceRollStatus `json:"status,omitempty"`
}

// DeviceRollList is a list of DeviceRolls.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
type DeviceRollList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeviceRoll `json:"items"`
}

// DeviceRollSpec is what an administrator wants.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.driverPods) != has(self.nodeWork)",message="must have exactly one of driverPods and nodeWork"
// +kubebuilder:validation:XValidation:rule="!has(self.driverPods) || has(self.driver)",message="driverPods needs driver"
// +kubebuilder:validation:XValidation:rule="has(self.driver) || has(self.nodes)",message="must have driver or nodes: a roll of all nodes is refused"
// +kubebuilder:validation:XValidation:rule="has(self.driver) == has(oldSelf.driver) && (!has(self.driver) || self.driver == oldSelf.driver)",message="driver cannot be changed: create another roll"
// +kubebuilder:validation:XValidation:rule="has(self.driverPods) == has(oldSelf.driverPods) && (!has(self.driverPods) || self.driverPods == oldSelf.driverPods)",message="driverPods cannot be changed: create another roll"
// +kubebuilder:validation:XValidation:rule="has(self.nodeWork) == has(oldSelf.nodeWork) && (!has(self.nodeWork) || self.nodeWork == oldSelf.nodeWork)",message="nodeWork cannot be changed: create another roll"
// +kubebuilder:validation:XValidation:rule="has(self.nodes) == has(oldSelf.nodes) && (!has(self.nodes) || self.nodes == oldSelf.nodes)",message="nodes cannot be changed: create another roll"
type DeviceRollSpec struct {
	// Driver is the driver whose devices are drained. If not set, those of all drivers; only
	// nodeWork allows that.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver,omitempty"`
	// DriverPods are the pods of the driver, which are replaced on each node.
	// +optional
	DriverPods *RollDriverPods `json:"driverPods,omitempty"`
	// NodeWork is work on the nodes themselves, such as on kernel or firmware.
	// +optional
	NodeWork *RollNodeWork `json:"nodeWork,omitempty"`
	// Nodes selects nodes among those that have devices. If not set, all that have devices of the
	// driver. They are found once, when the roll begins.
	// +optional
	Nodes *RollNodes `json:"nodes,omitempty"`
	// AtATime is the maximum number of nodes processed at a time. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	AtATime *int32 `json:"atATime,omitempty"`
	// PerLabel is a label of nodes, such as topology.kubernetes.io/zone: atATime then counts for each
	// of its values, and at most 32 nodes are in work in all.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	PerLabel string `json:"perLabel,omitempty"`
	// Canary is after how many nodes the roll waits until a user continues it. Defaults
	// to 0: it does not wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Canary int32 `json:"canary,omitempty"`
	// Drain is how the devices of a node are drained.
	// +optional
	Drain DrainSettings `json:"drain,omitempty,omitzero"`
	// Proof is a pod with a claim for one device, which must succeed before a node is used again.
	// +optional
	Proof *RollProof `json:"proof,omitempty"`
	// MinReadySeconds is how long the new pods of the driver must be Ready before their node is used again. If a
	// container of a pod has restarted, that time counts once more for each restart, up to 10 minutes. Defaults to 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// Timeouts bound the steps of a node.
	// +optional
	Timeouts RollTimeouts `json:"timeouts,omitempty,omitzero"`

	// Paused begins no further node, and evicts no further pods. Nodes whose devices are drained are
	// finished.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Undo takes back what the roll has cordoned, and begins no further node. It does not bring back
	// previous pods of the driver.
	// +optional
	Undo bool `json:"undo,omitempty"`
	// Continue is how often a user has continued the roll. A larger number than that in the status
	// tries the nodes again that failed, or acknowledges the canary.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Continue int64 `json:"continue,omitempty"`
	// Skip are nodes that are left out. What the roll has cordoned on them is taken back.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Skip []string `json:"skip,omitempty"`
	// WorkDone are nodes on which the work of nodeWork is done, unless it has a condition or an
	// annotation.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	WorkDone []string `json:"workDone,omitempty"`
}

// RollDriverPods are the pods of a driver.
//
// +kubebuilder:object:generate=true
type RollDriverPods struct {
	// Namespace is that of the pods. The controller needs rights in it to delete them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Labels are those of the pods that are replaced.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Labels map[string]string `json:"labels"`
	// Replace is Delete, the default, which deletes the pods, as a DaemonSet with the update strategy
	// OnDelete needs it; or Wait, which waits until an operator has replaced them.
	// +optional
	Replace RollReplace `json:"replace,omitempty"`
}

// RollReplace is who replaces the pods of a driver.
//
// +kubebuilder:validation:Enum=Delete;Wait
type RollReplace string

// Who replaces the pods of a driver.
const (
	// ReplaceDelete deletes them.
	ReplaceDelete RollReplace = "Delete"
	// ReplaceWait waits until an operator has.
	ReplaceWait RollReplace = "Wait"
)

// RollNodeWork is work on nodes. The roll cordons the node, drains its devices, and waits until the
// work is done: until the node has the condition or the annotation, or its name is in workDone.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.condition) || !has(self.annotation)",message="must have at most one of condition and annotation"
type RollNodeWork struct {
	// Condition of the node.
	// +optional
	Condition *RollNodeCondition `json:"condition,omitempty"`
	// Annotation of the node.
	// +optional
	Annotation *RollNodeAnnotation `json:"annotation,omitempty"`
}

// RollNodeCondition is a condition of a node.
//
// +kubebuilder:object:generate=true
type RollNodeCondition struct {
	// Type of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// Status of the condition. Defaults to True.
	// +optional
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status corev1.ConditionStatus `json:"status,omitempty"`
}

// RollNodeAnnotation is an annotation of a node.
//
// +kubebuilder:object:generate=true
type RollNodeAnnotation struct {
	// Key of the annotation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// Value of the annotation.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// RollNodes selects nodes.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.labels)",message="must have exactly one of names and labels"
type RollNodes struct {
	// Names are those of the nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
	// Labels are those of the nodes.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Labels map[string]string `json:"labels,omitempty"`
}

// RollProof is a pod that uses one device of a node. It tolerates the cordon of the roll, runs on the
// node, and must succeed.
//
// +kubebuilder:object:generate=true
type RollProof struct {
	// Namespace is that of the pod and its claim. The controller needs rights in it to create them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// DeviceClassName is the DeviceClass of the claim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeviceClassName string `json:"deviceClassName"`
	// Image is that of the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// Command of the container. Defaults to that of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command,omitempty"`
}

// RollTimeouts bound the steps of a node. A node whose step takes longer fails, and the roll stops.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.drain) || (duration(self.drain) >= duration('5s') && duration(self.drain) <= duration('720h'))",message="drain must be at least 5s and at most 720h"
// +kubebuilder:validation:XValidation:rule="!has(self.driver) || (duration(self.driver) >= duration('5s') && duration(self.driver) <= duration('720h'))",message="driver must be at least 5s and at most 720h"
// +kubebuilder:validation:XValidation:rule="!has(self.work) || (duration(self.work) >= duration('5s') && duration(self.work) <= duration('720h'))",message="work must be at least 5s and at most 720h"
// +kubebuilder:validation:XValidation:rule="!has(self.proof) || (duration(self.proof) >= duration('5s') && duration(self.proof) <= duration('720h'))",message="proof must be at least 5s and at most 720h"
type RollTimeouts struct {
	// Drain bounds how long the devices are drained. Defaults to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	Drain *metav1.Duration `json:"drain,omitempty"`
	// Driver bounds how long the pods of the driver take to be replaced, and how long the devices take
	// to be published again. A pod that is Ready, though not for minReadySeconds yet, has more time. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	Driver *metav1.Duration `json:"driver,omitempty"`
	// Work bounds nodeWork. Defaults to 2h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	Work *metav1.Duration `json:"work,omitempty"`
	// Proof bounds the proof. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	Proof *metav1.Duration `json:"proof,omitempty"`
}
