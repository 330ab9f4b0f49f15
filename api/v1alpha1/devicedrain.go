package v1alpha1

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceDrainKind and DeviceDrainResource name the kind in manifests and in paths of the
// API.
const (
	DeviceDrainKind     = "DeviceDrain"
	DeviceDrainResource = "devicedrains"
)

const (
	// DrainDevicesMax is how many devices a drain can have.
	DrainDevicesMax = 4096
	// DrainRateMax bounds the evictions per minute, DrainRate is what they are if the
	// spec says nothing.
	DrainRateMax, DrainRate = 6000, 60
	// DrainTaintKey is the key of the taint that cordons devices if the spec says nothing.
	DrainTaintKey = Group + "/drain"
)

// A DeviceDrain takes devices out of use gently: it cordons them with a NoSchedule
// DeviceTaintRule, evicts the pods that hold them through the Eviction API, so that
// PodDisruptionBudgets are honoured, and is Drained when no claim holds any of them.
// Deleting it lifts the cordon and leaves the pods alone.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ddrain,categories=dra
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Devices,type=integer,JSONPath=`.status.counts.devices`
// +kubebuilder:printcolumn:name=Cordoned,type=string,JSONPath=`.status.conditions[?(@.type=="Cordoned")].status`
// +kubebuilder:printcolumn:name=Remaining,type=integer,JSONPath=`.status.counts.remaining`
// +kubebuilder:printcolumn:name=Evicted,type=integer,JSONPath=`.status.counts.evicted`
// +kubebuilder:printcolumn:name=Blocked,type=string,JSONPath=`.status.conditions[?(@.type=="Blocked")].reason`
// +kubebuilder:printcolumn:name=Drained,type=string,JSONPath=`.status.conditions[?(@.type=="Drained")].status`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Blocked")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must have at most 63 bytes, since it is a label of the rules that cordon the devices"
type DeviceDrain struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which devices are drained and how. Which devices, and how they are
	// cordoned, cannot be changed.
	// +required
	Spec DeviceDrainSpec `json:"spec"`
	// Status says how far the drain has come. It is written by dra-steward, and it is
	// all that the controller remembers.
	// +optional
	Status DeviceDrainStatus `json:"status,omitempty"`
}

// DeviceDrainList is a list of DeviceDrains.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
type DeviceDrainList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeviceDrain `json:"items"`
}

// DeviceDrainSpec is what an administrator wants.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.devices) != has(self.selector)",message="must have exactly one of devices and selector"
// +kubebuilder:validation:XValidation:rule="has(self.devices) == has(oldSelf.devices) && (!has(self.devices) || self.devices == oldSelf.devices)",message="devices cannot be changed: create another drain"
// +kubebuilder:validation:XValidation:rule="has(self.selector) == has(oldSelf.selector) && (!has(self.selector) || self.selector == oldSelf.selector)",message="selector cannot be changed: create another drain"
// +kubebuilder:validation:XValidation:rule="has(self.cordon) == has(oldSelf.cordon) && (!has(self.cordon) || self.cordon == oldSelf.cordon)",message="cordon cannot be changed: create another drain"
// +kubebuilder:validation:XValidation:rule="(has(self.withPartitions) && self.withPartitions) == (has(oldSelf.withPartitions) && oldSelf.withPartitions)",message="withPartitions cannot be changed: create another drain"
type DeviceDrainSpec struct {
	// Devices are the names of the devices. They need not be published.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Devices []DeviceName `json:"devices,omitempty"`
	// Selector selects published devices, and those that a claim holds and no slice has any more. It is resolved once,
	// when the drain begins, into the names in the status.
	// +optional
	Selector *DrainSelector `json:"selector,omitempty"`

	// UnknownDevices is about devices of the driver and pool of the selector that a claim holds and no slice has, while the
	// selector has expressions: Include drains them, too, Exclude leaves them out. If not set, the drain is Blocked while
	// there are any.
	// +optional
	UnknownDevices UnknownDevices `json:"unknownDevices,omitempty"`

	// WithPartitions drains the published devices, too, that consume counters of the same
	// counter sets, such as the other partitions of a GPU. They are found once, when the drain
	// begins.
	// +optional
	WithPartitions bool `json:"withPartitions,omitempty"`

	// Cordon is the taint that keeps new pods away.
	// +optional
	Cordon *DrainCordon `json:"cordon,omitempty"`
	// WithoutCordon evicts pods even where DeviceTaintRules are not served, so that
	// nothing keeps new pods away from the devices.
	// +optional
	WithoutCordon bool `json:"withoutCordon,omitempty"`

	// Paused suspends evictions. The cordon stays.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// DryRun reports which pods the drain evicts, without a cordon and without evictions.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// Via is how pods are asked to leave: Eviction, the default, evicts them through the
	// Eviction API; EvictionRequest creates EvictionRequests (lifecycle.k8s.io, alpha in
	// Kubernetes 1.37), so that the responders of a pod can end it gracefully. The drain
	// returns to Eviction where EvictionRequests are not served, or their status does not
	// move; the condition ViaEvictionRequest has the reason.
	// +optional
	Via DrainVia `json:"via,omitempty"`
	// EvictionsPerMinute bounds the rate of evictions. Defaults to 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6000
	EvictionsPerMinute *int32 `json:"evictionsPerMinute,omitempty"`
	// MaxPerNamespace bounds how many pods of one namespace are on their way out at a
	// time. If not set, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNamespace *int32 `json:"maxPerNamespace,omitempty"`
	// MaxPerNode bounds how many pods of one node are on their way out at a time.
	// If not set, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNode *int32 `json:"maxPerNode,omitempty"`
	// Order is the eviction order, the most significant criterion first: Priority takes
	// pods of the lowest priority first, OwnerSpread one pod of each owner before a second
	// of the same owner. Defaults to both, in this order. Ties are broken by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Order []DrainOrder `json:"order,omitempty"`
	// PodsWithoutController is the treatment of pods that no controller replaces: Keep,
	// the default, leaves them, and the drain is Blocked by them; Evict evicts them.
	// +optional
	PodsWithoutController PodsWithoutController `json:"podsWithoutController,omitempty"`

	// Windows are the times in which pods are evicted. Outside of them, the drain keeps the
	// cordon, and evicts and deletes no pods. If not set, pods are evicted at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`

	// Deadline is the maximum duration of the drain, and what happens at its end. If
	// not set, there is no limit.
	// +optional
	Deadline *DrainDeadline `json:"deadline,omitempty"`
	// AtEnd is the state of the cordon when the devices are drained: Hold, the default,
	// keeps it until the drain is deleted; Uncordon lifts it.
	// +optional
	AtEnd DrainEnd `json:"atEnd,omitempty"`
}

// A DeviceName names one device.
//
// +kubebuilder:object:generate=true
type DeviceName struct {
	// Driver is that of the slice: slice.spec.driver.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// Pool is that of the slice: slice.spec.pool.name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool"`
	// Device is the name of the device: slice.spec.devices[].name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Device string `json:"device"`
}

// String returns "driver/pool/device".
func (n DeviceName) String() string { return n.Driver + "/" + n.Pool + "/" + n.Device }

// DrainSelector selects published devices. All criteria must be satisfied by a device,
// as its driver published it.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.driver) || has(self.pool) || has(self.selectors)",message="must have driver, pool or selectors: a drain of all devices is refused"
type DrainSelector struct {
	// Driver is that of the slice: slice.spec.driver.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver *string `json:"driver,omitempty"`
	// Pool is that of the slice: slice.spec.pool.name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool *string `json:"pool,omitempty"`
	// Selectors are criteria that must all be satisfied by a device: CEL expressions as
	// in the requests of claims.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(selector, has(selector.cel))",message="every selector must have a CEL expression, in cel"
	// +kubebuilder:validation:XValidation:rule="self.all(selector, !has(selector.cel) || size(selector.cel.expression) <= 10240)",message="an expression must have at most 10240 bytes"
	Selectors []resourceapi.DeviceSelector `json:"selectors,omitempty"`
}

// UnknownDevices is what a drain does with devices whose attributes are not known.
//
// +kubebuilder:validation:Enum=Include;Exclude
type UnknownDevices string

// What a drain does with devices whose attributes are not known.
const (
	// UnknownInclude drains them.
	UnknownInclude UnknownDevices = "Include"
	// UnknownExclude leaves them out.
	UnknownExclude UnknownDevices = "Exclude"
)

// DrainCordon is the taint of the rules that cordon the devices, with the effect
// NoSchedule.
//
// +kubebuilder:object:generate=true
type DrainCordon struct {
	// Key of the taint. Defaults to dra-steward.io/drain.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`
	// Value of the taint. Defaults to the name of the drain.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
}

// DrainVia is how pods are asked to leave.
//
// +kubebuilder:validation:Enum=Eviction;EvictionRequest
type DrainVia string

// How pods are asked to leave.
const (
	// ViaEviction evicts pods through the Eviction API.
	ViaEviction DrainVia = "Eviction"
	// ViaEvictionRequest creates EvictionRequests (KEP-4563).
	ViaEvictionRequest DrainVia = "EvictionRequest"
)

// DrainOrder is a criterion of the eviction order.
//
// +kubebuilder:validation:Enum=Priority;OwnerSpread
type DrainOrder string

// The criteria of the eviction order.
const (
	// OrderPriority takes pods of the lowest priority first.
	OrderPriority DrainOrder = "Priority"
	// OrderOwnerSpread takes one pod of each owner before the second of any.
	OrderOwnerSpread DrainOrder = "OwnerSpread"
)

// PodsWithoutController is the treatment of pods that no controller replaces.
//
// +kubebuilder:validation:Enum=Keep;Evict
type PodsWithoutController string

// The treatments of pods that no controller replaces.
const (
	KeepPods  PodsWithoutController = "Keep"
	EvictPods PodsWithoutController = "Evict"
)

// DrainEnd is the state of the cordon when the devices are drained.
//
// +kubebuilder:validation:Enum=Hold;Uncordon
type DrainEnd string

// The states of the cordon when the devices are drained.
const (
	EndHold     DrainEnd = "Hold"
	EndUncordon DrainEnd = "Uncordon"
)

// DrainDeadline is when the drain ends at the latest.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.after) != has(self.time)",message="must have exactly one of after and time"
type DrainDeadline struct {
	// After is how long after the creation of the drain: 2h, 90m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	After *metav1.Duration `json:"after,omitempty"`
	// Time is the deadline itself.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// Action is what happens then: Keep, the default, stops evicting and keeps the cordon,
	// so that the devices empty by themselves; Delete deletes the remaining pods,
	// regardless of PodDisruptionBudgets; Fail gives up, and lifts the cordon if atEnd is
	// Uncordon.
	// +optional
	Action DeadlineAction `json:"action,omitempty"`
}

// DeadlineAction is what happens at the deadline.
//
// +kubebuilder:validation:Enum=Keep;Delete;Fail
type DeadlineAction string

// What happens at the deadline.
const (
	DeadlineKeep   DeadlineAction = "Keep"
	DeadlineDelete DeadlineAction = "Delete"
	DeadlineFail   DeadlineAction = "Fail"
)

// DrainSettings are those of the DeviceDrains that DeviceReactions and DeviceRolls create. The fields
// are those of a DeviceDrain.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || !has(self.deadline.time)",message="the deadline must have after: a time is that of one drain"
type DrainSettings struct {
	// WithPartitions drains the devices, too, that consume counters of the same counter sets.
	// +optional
	WithPartitions bool `json:"withPartitions,omitempty"`
	// Via is how pods are asked to leave.
	// +optional
	Via DrainVia `json:"via,omitempty"`
	// EvictionsPerMinute bounds the rate of evictions. Defaults to 60.
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
	// Windows are the times in which pods are evicted. If not set, pods are evicted at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`
	// Deadline is the maximum duration of the drain, and what happens at its end.
	// +optional
	Deadline *DrainDeadline `json:"deadline,omitempty"`
}

// Of returns the spec of a drain of devices, which keeps the cordon until it is deleted.
func (s DrainSettings) Of(devices ...DeviceName) DeviceDrainSpec {
	return DeviceDrainSpec{
		Devices: devices, WithPartitions: s.WithPartitions, Via: s.Via, EvictionsPerMinute: s.EvictionsPerMinute,
		MaxPerNamespace: s.MaxPerNamespace, Order: s.Order, PodsWithoutController: s.PodsWithoutController,
		Windows: s.Windows, Deadline: s.Deadline, AtEnd: EndHold,
	}
}

// WindowsMax is how many windows an object can have.
const WindowsMax = 16

// A Window is a time of the week in which pods are evicted.
//
// +kubebuilder:object:generate=true
type Window struct {
	// Days are the days on which the window opens. Defaults to every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`
	// From is the time of day at which the window opens, as HH:MM.
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	From string `json:"from"`
	// To is the time of day at which the window closes, as HH:MM: on the next day unless it is
	// later than from. A window from 00:00 to 00:00 is a whole day.
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	To string `json:"to"`
	// TimeZone is the name of the time zone of days, from and to in the database of the IANA,
	// such as Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// The days of the week.
const (
	Monday    Weekday = "Monday"
	Tuesday   Weekday = "Tuesday"
	Wednesday Weekday = "Wednesday"
	Thursday  Weekday = "Thursday"
	Friday    Weekday = "Friday"
	Saturday  Weekday = "Saturday"
	Sunday    Weekday = "Sunday"
)

// TolerationsAnnotation records, on a claim or template whose tolerations were changed
// when it was created, what they were: a JSON object with the lists by the name of
// their request ("gpu", "gpu/small" for an alternative) and the hash of the lists.
const TolerationsAnnotation = "dra-steward.io/original-tolerations"

// Tolerations change the tolerations of new claims and templates.
type Tolerations struct {
	// ExpandEmptyEffect replaces a toleration without an effect, which means all
	// effects, by one for NoSchedule and one for NoExecute, both without seconds. The
	// API server's own evictor (1.37) passes over tolerations without an effect.
	ExpandEmptyEffect bool `json:"expandEmptyEffect,omitempty"`
	// Rules apply in their order: all of them add, then all of them set seconds.
	Rules []TolerationRule `json:"rules,omitempty"`
}

// TolerationRule changes the tolerations of the requests that it selects. A criterion
// that is left out holds for all.
type TolerationRule struct {
	// Namespaces are the names of namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// Users and Groups are those of the author; one of either is enough.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// DeviceClasses are the names of the classes that a request asks for.
	DeviceClasses []string `json:"deviceClasses,omitempty"`
	// Add are tolerations for every request that has none with the same key, operator,
	// value and effect.
	Add []resourceapi.DeviceToleration `json:"add,omitempty"`
	// DefaultSeconds is set in a toleration for NoExecute that has no
	// tolerationSeconds and so has no end.
	DefaultSeconds *int64 `json:"defaultSeconds,omitempty"`
	// MaxSeconds caps the tolerationSeconds of tolerations for NoExecute. One without
	// gets DefaultSeconds, or this if there are none. Where a rule sets either, a toleration
	// without an effect is replaced as with ExpandEmptyEffect, since it has no end.
	MaxSeconds *int64 `json:"maxSeconds,omitempty"`
}
