package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeviceDrainStatus is the progress of a drain. It is all that a restarted controller
// knows about the drain.
//
// +kubebuilder:object:generate=true
type DeviceDrainStatus struct {
	// ObservedGeneration is the generation of the drain that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Cordoned, Draining, Blocked, Drained and Failed; with via
	// EvictionRequest also ViaEvictionRequest; where the version of the cluster has a known
	// fault also KnownFault; with foresight also PodsLand.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Devices are the devices that are drained, grouped: pools whose devices have the same
	// names share an item.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Devices []DrainDevices `json:"devices,omitempty"`
	// Siblings are the first 64 devices that share counters with drained ones and are not
	// drained themselves, such as other partitions of the same GPU: they can still be
	// allocated. counts.siblings is the number of all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Siblings []string `json:"siblings,omitempty"`
	// Counts are numbers of devices, claims and pods.
	// +optional
	Counts DrainCounts `json:"counts,omitempty,omitzero"`
	// Evicting are the pods that the controller is about to evict. They are written
	// before they are evicted, so that a restarted controller counts each once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Evicting []DrainPod `json:"evicting,omitempty"`
	// Requested are pods with an EvictionRequest of the drain, at most 128, and the newest
	// pods that the drain evicts through the Eviction API after their request.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=256
	Requested []DrainRequest `json:"requested,omitempty"`
	// LastEvictionTime is when pods were evicted last, from which the rate counts.
	// +optional
	LastEvictionTime *metav1.MicroTime `json:"lastEvictionTime,omitempty"`
	// Blocked is who cannot be evicted now, and why. At most 64 are listed, and at most
	// 32 KiB; counts.blocked is the number of all pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Blocked []DrainBlock `json:"blocked,omitempty"`
	// Attempts are claims and owners whose pods were evicted and may come back. The
	// newest 512 are kept.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Attempts []DrainAttempt `json:"attempts,omitempty"`
	// EvictedByOwner says how many pods of each owner were evicted, for owners that have pods left.
	// The first 512 are kept.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=512
	EvictedByOwner []OwnerEvictions `json:"evictedByOwner,omitempty"`
	// CompletionTime is when the drain came to its end, Drained or Failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// DrainDevices are devices of a drain: each of the pools has each of the devices.
//
// +kubebuilder:object:generate=true
type DrainDevices struct {
	// Driver is that of the pools.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// Pools are the names of the pools.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Pools []string `json:"pools"`
	// Devices are the names of the devices in each of the pools.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Devices []string `json:"devices"`
	// WholePools is true if the pools have no other devices, so that one DeviceTaintRule
	// cordons a pool. It becomes false when another device is published.
	// +optional
	WholePools bool `json:"wholePools,omitempty"`
}

// DrainCounts are numbers of a drain.
//
// +kubebuilder:object:generate=true
type DrainCounts struct {
	// Devices is how many are drained, Unpublished how many of them no slice has.
	// +optional
	Devices int32 `json:"devices"`
	// +optional
	Unpublished int32 `json:"unpublished,omitempty"`
	// Siblings is how many devices share counters with drained ones and are not drained.
	// +optional
	Siblings int32 `json:"siblings,omitempty"`
	// Claims is how many hold one of the devices.
	// +optional
	Claims int32 `json:"claims"`
	// Remaining is how many pods use one of these claims; Leaving is how many of them
	// are on their way out, Waiting how many have yet to be evicted and Blocked how many
	// cannot be.
	// +optional
	Remaining int32 `json:"remaining"`
	// +optional
	Leaving int32 `json:"leaving"`
	// +optional
	Waiting int32 `json:"waiting"`
	// +optional
	Blocked int32 `json:"blocked"`
	// Namespaces is how many the remaining pods are in.
	// +optional
	Namespaces int32 `json:"namespaces"`
	// Evicted is how many evictions the API server accepted, with the pods that ended
	// after an EvictionRequest; Deleted is how many deletions at the deadline, with those of pods
	// that were terminating.
	// +optional
	Evicted int32 `json:"evicted"`
	// +optional
	Deleted int32 `json:"deleted,omitempty"`
}

// A DrainPod is one pod.
//
// +kubebuilder:object:generate=true
type DrainPod struct {
	// +required
	Namespace string `json:"namespace"`
	// +required
	Name string `json:"name"`
	// +required
	UID types.UID `json:"uid"`
	// Delete is true for a pod that is deleted at the deadline rather than evicted.
	// +optional
	Delete bool `json:"delete,omitempty"`
	// GracePeriodSeconds is that of the deletion of a pod which is terminating already, with a
	// grace period that ends too late.
	// +optional
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
}

// A DrainRequest is about a pod that was asked to leave by an EvictionRequest.
//
// +kubebuilder:object:generate=true
type DrainRequest struct {
	// UID is that of the pod.
	// +required
	UID types.UID `json:"uid"`
	// Time is when it was asked.
	// +required
	Time metav1.MicroTime `json:"time"`
	// Fallback is why it is evicted through the Eviction API instead: a reason of the
	// condition ViaEvictionRequest, or Stalled, RequestFailed or RequestRefused.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Fallback string `json:"fallback,omitempty"`
}

// A DrainBlock is why some pods, or a claim, keep a device.
//
// +kubebuilder:object:generate=true
type DrainBlock struct {
	// Reason is one of those of the condition Blocked.
	// +required
	Reason string `json:"reason"`
	// Namespace is that of everything named here.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Pods are the names of the first eight pods, Count says how many there are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Pods []string `json:"pods,omitempty"`
	// +optional
	Count int32 `json:"count,omitempty"`
	// Budgets are the PodDisruptionBudgets that do not allow it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Budgets []string `json:"budgets,omitempty"`
	// Claim is the claim that holds a device.
	// +optional
	Claim string `json:"claim,omitempty"`
	// Owner is the controller of the pods, such as ReplicaSet/web-5d9f, or a consumer of
	// the claim that is no pod.
	// +optional
	Owner string `json:"owner,omitempty"`
	// Message is what the API server said, where it refused an eviction, or how a pod terminates.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// RetryTime is when it is tried again.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}

// OwnerEvictions counts the evictions of the pods of one owner.
//
// +kubebuilder:object:generate=true
type OwnerEvictions struct {
	// UID is that of the owner.
	// +required
	UID types.UID `json:"uid"`
	// Count is how many of its pods were evicted.
	// +required
	Count int32 `json:"count"`
}

// A DrainAttempt remembers that pods were evicted and may come back.
//
// +kubebuilder:object:generate=true
type DrainAttempt struct {
	// UID is that of a claim which outlives its pods, or of the owner of pods that came
	// back by another claim.
	// +required
	UID types.UID `json:"uid"`
	// Count is how often it was tried.
	// +required
	Count int32 `json:"count"`
	// Time is when it was tried last: the first eviction of that time.
	// +required
	Time metav1.MicroTime `json:"time"`
	// Returned says that pods came back since.
	// +optional
	Returned bool `json:"returned,omitempty"`
}

// The types of the conditions of a DeviceDrain.
const (
	// DrainCordoned is true once no new pod gets one of the devices, unless it tolerates
	// the cordon: 10 s after the rules were written, for the scheduler to see them.
	DrainCordoned = "Cordoned"
	// DrainDraining is true while pods are evicted.
	DrainDraining = "Draining"
	// OutsideWindow is the reason of Draining while no window is open, WindowNotValid while one
	// cannot be read.
	OutsideWindow, WindowNotValid = "OutsideWindow", "WindowNotValid"
	// DrainBlocked is true while a pod or a claim keeps a device and nothing can be done
	// about it for now.
	DrainBlocked = "Blocked"
	// DrainDrained is true once no claim holds one of the devices. It stays true.
	DrainDrained = "Drained"
	// DrainFailed is true once a drain has given up at its deadline.
	DrainFailed = "Failed"
	// DrainViaEvictionRequest is true while pods are asked to leave by EvictionRequests, as
	// spec.via says, and false once the drain has returned to the Eviction API. Then it
	// stays false, until spec.via changes.
	DrainViaEvictionRequest = "ViaEvictionRequest"
	// DrainKnownFault is true while the version of the cluster has a known fault that the
	// DeviceTaintRules of the drain can set off. It is absent otherwise.
	DrainKnownFault = "KnownFault"
	// DrainPodsLand is true if kube-scheduler has a place for each pod that still has to
	// leave, and false while it has none for some. It is absent without foresight and after
	// the drain.
	DrainPodsLand = "PodsLand"
)

// The reasons of a false condition ViaEvictionRequest, which concern the whole drain, and of
// the field fallback, which concern one pod.
const (
	// FallbackNotServed: the API server does not serve EvictionRequests.
	FallbackNotServed = "NotServed"
	// FallbackForbidden: the controller has no right to list EvictionRequests.
	FallbackForbidden = "Forbidden"
	// FallbackNotReadable: EvictionRequests could not be listed for a minute.
	FallbackNotReadable = "NotReadable"
	// FallbackNotAnswered: an EvictionRequest had no status after a minute, so that no
	// controller seems to process them.
	FallbackNotAnswered = "NotAnswered"
	// FallbackStalled: the status of the request, and that of its Eviction, did not move for
	// 25 minutes.
	FallbackStalled = "Stalled"
	// FallbackFailed: the request has the condition Failed.
	FallbackFailed = "RequestFailed"
	// FallbackRefused: the API server refused the request.
	FallbackRefused = "RequestRefused"
)

// The reasons of the condition Blocked, from what concerns the whole drain to what
// passes by itself.
const (
	// BlockedNoDevices: the selector matches no published device yet.
	BlockedNoDevices = "NoDevices"
	// BlockedTooManyDevices: the selector matches more devices than a drain may have.
	BlockedTooManyDevices = "TooManyDevices"
	// BlockedUnknownDevices: claims hold devices that no slice has, and the selector has expressions.
	BlockedUnknownDevices = "UnknownDevices"
	// BlockedSelector: the selector does not compile, or fails for a device.
	BlockedSelector = "SelectorFailed"
	// BlockedCannotCordon: DeviceTaintRules are not served, or not for us to write.
	BlockedCannotCordon = "CannotCordon"
	// BlockedThreshold: the drain hits more than what is allowed or acknowledged.
	BlockedThreshold = "AboveThreshold"
	// BlockedReused: a replacement uses the claim of the pod that was evicted, which the
	// scheduler allows whatever the taints of the devices are.
	BlockedReused = "ClaimReused"
	// BlockedTolerated: the device was allocated in spite of the cordon, by a toleration.
	BlockedTolerated = "Tolerated"
	// BlockedReallocated: the device was allocated after the drain began, since nothing
	// cordons it, or to a claim whose scheduler does not look at taints.
	BlockedReallocated = "Reallocated"
	// BlockedNoController: no controller replaces the pod.
	BlockedNoController = "NoController"
	// BlockedManyBudgets: the pod has more than one PodDisruptionBudget, which the
	// Eviction API refuses.
	BlockedManyBudgets = "MoreThanOneBudget"
	// BlockedBudget: a PodDisruptionBudget allows no eviction now.
	BlockedBudget = "BudgetBlocked"
	// BlockedRefused: the API server refused the eviction for another reason.
	BlockedRefused = "EvictionRefused"
	// BlockedTerminating: the pod is terminating, with a grace period that ends in more than an
	// hour or ended more than ten minutes ago.
	BlockedTerminating = "TerminatingSlowly"
	// BlockedReserved: the claim is reserved for what is no pod that uses it.
	BlockedReserved = "ClaimReserved"
)
