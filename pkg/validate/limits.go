package validate

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// Limits are the sizes that a site allows. Zero means what the API server allows;
// a site may go below that, never above.
type Limits struct {
	DevicesPerSlice                  int
	DevicesPerAdvancedSlice          int
	AttributesAndCapacitiesPerDevice int
	AttributeValuesPerDevice         int
	TaintsPerDevice                  int
	TolerationsPerRequest            int
	RequestsPerClaim                 int
	AlternativesPerRequest           int
	DevicesPerClaim                  int
}

// A LimitField describes one field of Limits.
type LimitField struct {
	// Name is the field's name in a configuration file.
	Name string
	// Doc says in one line what is counted.
	Doc string
	// Upstream is the API server's number and Constant its name in
	// k8s.io/api/resource/v1.
	Upstream int
	Constant string

	of func(*Limits) *int
}

// LimitFields lists the fields of Limits with what the API server allows.
func LimitFields() []LimitField {
	return []LimitField{
		{"devicesPerSlice", "devices in a ResourceSlice",
			resourceapi.ResourceSliceMaxDevices, "ResourceSliceMaxDevices",
			func(l *Limits) *int { return &l.DevicesPerSlice }},
		{"devicesPerAdvancedSlice", "devices in a ResourceSlice in which a device has a taint, consumes a counter or has an attribute with a list",
			resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures, "ResourceSliceMaxDevicesWithAdvancedFeatures",
			func(l *Limits) *int { return &l.DevicesPerAdvancedSlice }},
		{"attributesAndCapacitiesPerDevice", "attributes plus capacities of a device",
			resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice, "ResourceSliceMaxAttributesAndCapacitiesPerDevice",
			func(l *Limits) *int { return &l.AttributesAndCapacitiesPerDevice }},
		{"attributeValuesPerDevice", "attribute values of a device, the items of lists counted singly",
			resourceapi.ResourceSliceMaxAttributeValuesPerDevice, "ResourceSliceMaxAttributeValuesPerDevice",
			func(l *Limits) *int { return &l.AttributeValuesPerDevice }},
		{"taintsPerDevice", "taints that a ResourceSlice puts on a device",
			resourceapi.DeviceTaintsMaxLength, "DeviceTaintsMaxLength",
			func(l *Limits) *int { return &l.TaintsPerDevice }},
		{"tolerationsPerRequest", "tolerations of a request, and of each alternative of a request",
			resourceapi.DeviceTolerationsMaxLength, "DeviceTolerationsMaxLength",
			func(l *Limits) *int { return &l.TolerationsPerRequest }},
		{"requestsPerClaim", "requests in a claim",
			resourceapi.DeviceRequestsMaxSize, "DeviceRequestsMaxSize",
			func(l *Limits) *int { return &l.RequestsPerClaim }},
		{"alternativesPerRequest", "alternatives (firstAvailable) of a request",
			resourceapi.FirstAvailableDeviceRequestMaxSize, "FirstAvailableDeviceRequestMaxSize",
			func(l *Limits) *int { return &l.AlternativesPerRequest }},
		{"devicesPerClaim", "devices that a claim asks for, all requests together",
			resourceapi.AllocationResultsMaxSize, "AllocationResultsMaxSize",
			func(l *Limits) *int { return &l.DevicesPerClaim }},
	}
}

// OrUpstream returns l with every zero replaced by what the API server allows.
func (l Limits) OrUpstream() Limits {
	for _, f := range LimitFields() {
		if n := f.of(&l); *n == 0 {
			*n = f.Upstream
		}
	}
	return l
}

// Validate refuses limits below zero or above what the API server allows; all of
// them in one error.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range LimitFields() {
		if n := *f.of(&l); n < 0 || n > f.Upstream {
			errs = append(errs, fmt.Errorf("limits.%s: %d: must be between 1 and %d (%s), or 0 or absent for %[3]d",
				f.Name, n, f.Upstream, f.Constant))
		}
	}
	return errors.Join(errs...)
}
