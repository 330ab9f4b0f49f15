package v1alpha1

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSlicePatchKind and ResourceSlicePatchResource name the kind in manifests and
// in paths of the API.
const (
	ResourceSlicePatchKind     = "ResourceSlicePatch"
	ResourceSlicePatchResource = "resourceslicepatches"
)

// A ResourceSlicePatch overrides or extends what DRA drivers publish about devices, as
// KEP-5027 describes it. It never changes a ResourceSlice or a running allocation: who
// reads devices merges patches and slices, and the stock kube-scheduler does not.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=rsp,categories=dra
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Driver,type=string,JSONPath=`.spec.devices.filter.driver`
// +kubebuilder:printcolumn:name=Priority,type=integer,JSONPath=`.spec.devices.priority`
// +kubebuilder:printcolumn:name=Devices,type=integer,JSONPath=`.status.matchedDevices`
// +kubebuilder:printcolumn:name=Applied,type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name=Pool,type=string,priority=1,JSONPath=`.spec.devices.filter.pool`
// +kubebuilder:printcolumn:name=Device,type=string,priority=1,JSONPath=`.spec.devices.filter.device`
// +kubebuilder:printcolumn:name=Conflicting,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Conflicting")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceSlicePatch struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which devices are patched and how. Changing it increments
	// metadata.generation.
	// +required
	Spec ResourceSlicePatchSpec `json:"spec"`
	// Status is the effect of the patch on the devices that exist. It is written by
	// dra-steward.
	// +optional
	Status ResourceSlicePatchStatus `json:"status,omitempty"`
}

// ResourceSlicePatchList is a list of ResourceSlicePatches.
//
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
type ResourceSlicePatchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceSlicePatch `json:"items"`
}

// ResourceSlicePatchSpec is what an administrator wants.
//
// +kubebuilder:object:generate=true
type ResourceSlicePatchSpec struct {
	// Devices defines how to patch devices.
	// +required
	Devices DevicePatch `json:"devices"`
}

// DevicePatch selects devices by class, driver, pool, name and CEL selectors, and has
// the values to patch. All criteria must be satisfied by a device. A DevicePatch with no
// criteria is valid and matches all devices.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="(has(self.attributes) ? size(self.attributes) : 0) + (has(self.capacity) ? size(self.capacity) : 0) <= 32",message="must have at most 32 attributes and capacities together"
type DevicePatch struct {
	// Filter defines which devices the patch is applied to.
	// +optional
	Filter *DevicePatchFilter `json:"filter,omitempty"`

	// Priority decides between patches that set the same attribute or capacity of the
	// same device: the highest wins. If priorities are equal, the older patch wins by
	// its creationTimestamp, and within one second the first by name. Defaults to 0.
	// Updates do not change the creation time: set different priorities to avoid
	// ambiguities.
	// +optional
	Priority *int64 `json:"priority,omitempty"`

	// Attributes defines the attributes to patch for matching devices. The names
	// include the domain. An entry with "null" removes the attribute; it is written
	// as "null": {} with the quotes, since YAML reads a bare null as no key at all.
	// At most 32 attributes and capacities together.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z_][A-Za-z0-9_]{0,31}$') && name.indexOf('/') <= 63)",message="names must be fully qualified: a DNS subdomain of at most 63 bytes, a slash, a C identifier of at most 32 bytes, such as gpu.example.com/model"
	Attributes map[resourceapi.FullyQualifiedName]NullableDeviceAttribute `json:"attributes,omitempty"`

	// Capacity defines the capacities to patch for matching devices. The names
	// include the domain. A capacity cannot be removed, only reduced to 0. The
	// request policy of the driver stays unless the patch has its own.
	// At most 32 attributes and capacities together.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z_][A-Za-z0-9_]{0,31}$') && name.indexOf('/') <= 63)",message="names must be fully qualified: a DNS subdomain of at most 63 bytes, a slash, a C identifier of at most 32 bytes, such as gpu.example.com/memory"
	Capacity map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity `json:"capacity,omitempty"`
}

// DevicePatchFilter defines which devices a DevicePatch applies to. All criteria must
// be satisfied by a device, as its driver published it: what patches make of it does
// not count.
//
// +kubebuilder:object:generate=true
type DevicePatchFilter struct {
	// DeviceClassName is the name of a DeviceClass whose selectors must be satisfied.
	// While there is no such class, the patch applies to no device.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeviceClassName *string `json:"deviceClassName,omitempty"`

	// Driver is that of the slice: slice.spec.driver.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver *string `json:"driver,omitempty"`

	// Pool is that of the slice: slice.spec.pool.name. Pools of different drivers may
	// have the same name; set driver, too, to tell them apart.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool *string `json:"pool,omitempty"`

	// Device is the name of devices: slice.spec.devices[].name. Only driver, pool and
	// device together name a single device.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Device *string `json:"device,omitempty"`

	// Selectors are criteria that must all be satisfied by a device.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(selector, has(selector.cel))",message="every selector must have a CEL expression, in cel"
	// +kubebuilder:validation:XValidation:rule="self.all(selector, !has(selector.cel) || size(selector.cel.expression) <= 10240)",message="an expression must have at most 10240 bytes"
	Selectors []resourceapi.DeviceSelector `json:"selectors,omitempty"`
}

// NullableDeviceAttribute has exactly one field set: those of a DeviceAttribute, or
// null.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="[has(self.int), has(self.bool), has(self.string), has(self.version), has(self.ints), has(self.bools), has(self.strings), has(self.versions), has(self.__null__)].filter(set, set).size() == 1",message="must have exactly one of int, bool, string, version, ints, bools, strings, versions, or \"null\": {} to remove the attribute"
// +kubebuilder:validation:XValidation:rule="(!has(self.string) || size(self.string) <= 64) && (!has(self.version) || size(self.version) <= 64)",message="a string or version must have at most 64 bytes"
// +kubebuilder:validation:XValidation:rule="(!has(self.ints) || size(self.ints) > 0) && (!has(self.bools) || size(self.bools) > 0) && (!has(self.strings) || size(self.strings) > 0) && (!has(self.versions) || size(self.versions) > 0)",message="a list must not be empty"
type NullableDeviceAttribute struct {
	resourceapi.DeviceAttribute `json:",inline"`

	// NullValue, if set, removes the attribute.
	// +optional
	NullValue *NullValue `json:"null,omitempty"`
}

// String describes the attribute with its null, which that of DeviceAttribute would
// leave out.
func (a NullableDeviceAttribute) String() string {
	if a.NullValue != nil {
		return "null"
	}
	return a.DeviceAttribute.String()
}

// NullValue is the value of an attribute that is removed. It has no fields.
//
// +kubebuilder:object:generate=true
type NullValue struct{}

// ResourceSlicePatchStatus is the effect of a patch on the devices that exist.
//
// +kubebuilder:object:generate=true
type ResourceSlicePatchStatus struct {
	// Conditions are Accepted, Applied, Conflicting, ClassNotFound and CELError, each
	// with the generation of the patch that it speaks of.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// MatchedSlices is the number of ResourceSlices with a device that matches.
	// +optional
	MatchedSlices *int32 `json:"matchedSlices,omitempty"`
	// MatchedDevices is the number of devices that match.
	// +optional
	MatchedDevices *int32 `json:"matchedDevices,omitempty"`
	// SkippedKeys are attributes and capacities that were not applied to some devices
	// although the patch matches them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	SkippedKeys []SkippedKey `json:"skippedKeys,omitempty"`
}

// A SkippedKey is an attribute or a capacity that was not applied.
//
// +kubebuilder:object:generate=true
type SkippedKey struct {
	// Name is that of the attribute or capacity in the patch.
	// +required
	Name string `json:"name"`
	// Reason is one word: LimitReached or InvalidValue.
	// +required
	Reason string `json:"reason"`
	// Devices is the number of devices that go without.
	// +required
	Devices int32 `json:"devices"`
}

// The types of the conditions of a ResourceSlicePatch.
const (
	// PatchAccepted is true when the patch can be used as it is written.
	PatchAccepted = "Accepted"
	// PatchApplied is true when at least one device is patched.
	PatchApplied = "Applied"
	// PatchConflicting is true when a device had no room for an attribute or capacity,
	// or when one of the same priority is older.
	PatchConflicting = "Conflicting"
	// PatchClassNotFound is true while there is no DeviceClass of the filter's name.
	PatchClassNotFound = "ClassNotFound"
	// PatchCELError is true when an expression does not compile or fails for a device.
	PatchCELError = "CELError"
)
