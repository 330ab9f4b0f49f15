package validate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	// earlier are the numbers of older API servers.
	earlier []earlier
}

// earlier is the number of API servers up to a minor.
type earlier struct{ until, number int }

// unlimited is the number of an API server that does not count.
const unlimited = math.MaxInt

// in returns the number of the API server of profile.
func (f LimitField) in(profile Profile) int {
	for _, e := range f.earlier {
		if !profile.Since(e.until + 1) {
			return e.number
		}
	}
	return f.Upstream
}

// LimitFields lists the fields of Limits with what the API server allows.
func LimitFields() []LimitField { return slices.Clone(limitFields) }

var limitFields = []LimitField{
	{"devicesPerSlice", "devices in a ResourceSlice",
		resourceapi.ResourceSliceMaxDevices, "ResourceSliceMaxDevices",
		func(l *Limits) *int { return &l.DevicesPerSlice }, nil},
	{"devicesPerAdvancedSlice", "devices in a ResourceSlice in which a device has a taint, consumes a counter or has an attribute with a list",
		resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures, "ResourceSliceMaxDevicesWithAdvancedFeatures",
		func(l *Limits) *int { return &l.DevicesPerAdvancedSlice }, []earlier{{34, 128}}},
	{"attributesAndCapacitiesPerDevice", "attributes plus capacities of a device",
		resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice, "ResourceSliceMaxAttributesAndCapacitiesPerDevice",
		func(l *Limits) *int { return &l.AttributesAndCapacitiesPerDevice }, nil},
	{"attributeValuesPerDevice", "attribute values of a device, the items of lists counted singly",
		resourceapi.ResourceSliceMaxAttributeValuesPerDevice, "ResourceSliceMaxAttributeValuesPerDevice",
		func(l *Limits) *int { return &l.AttributeValuesPerDevice }, []earlier{{35, unlimited}}},
	{"taintsPerDevice", "taints that a ResourceSlice puts on a device",
		resourceapi.DeviceTaintsMaxLength, "DeviceTaintsMaxLength",
		func(l *Limits) *int { return &l.TaintsPerDevice }, []earlier{{34, 4}}},
	{"tolerationsPerRequest", "tolerations of a request, and of each alternative of a request",
		resourceapi.DeviceTolerationsMaxLength, "DeviceTolerationsMaxLength",
		func(l *Limits) *int { return &l.TolerationsPerRequest }, nil},
	{"requestsPerClaim", "requests in a claim",
		resourceapi.DeviceRequestsMaxSize, "DeviceRequestsMaxSize",
		func(l *Limits) *int { return &l.RequestsPerClaim }, nil},
	{"alternativesPerRequest", "alternatives (firstAvailable) of a request",
		resourceapi.FirstAvailableDeviceRequestMaxSize, "FirstAvailableDeviceRequestMaxSize",
		func(l *Limits) *int { return &l.AlternativesPerRequest }, nil},
	{"devicesPerClaim", "devices that a claim asks for, all requests together",
		resourceapi.AllocationResultsMaxSize, "AllocationResultsMaxSize",
		func(l *Limits) *int { return &l.DevicesPerClaim }, nil},
}

// OrUpstream returns l with every zero replaced by what the API server allows.
func (l Limits) OrUpstream() Limits {
	for _, f := range limitFields {
		if n := f.of(&l); *n == 0 {
			*n = f.Upstream
		}
	}
	return l
}

// For returns what is allowed in front of the API server of profile: l, and what that
// server allows where it is less or l says nothing.
func (l Limits) For(profile Profile) Limits {
	for _, f := range limitFields {
		if n, server := f.of(&l), f.in(profile); *n == 0 || *n > server {
			*n = server
		}
	}
	return l
}

// Validate refuses limits below zero or above what the API server allows; all of
// them in one error, each a [field.Error] about a configuration file.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range limitFields {
		if n := *f.of(&l); n < 0 || n > f.Upstream {
			errs = append(errs, field.Invalid(field.NewPath("limits", f.Name), n, fmt.Sprintf(
				"must be between 1 and %d (%s), or 0 or absent for %[1]d", f.Upstream, f.Constant)))
		}
	}
	return errors.Join(errs...)
}
