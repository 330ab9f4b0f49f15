package validate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

func deviceAttributesMax(d walk.Device, c Pass) field.ErrorList {
	n, limit := len(d.Attributes)+len(d.Capacity), c.Limits.AttributesAndCapacitiesPerDevice
	if n <= limit {
		return nil
	}
	return form.Total(d.At(), "attributes and capacities", n, limit)
}

func deviceAttributeValuesMax(d walk.Device, c Pass) field.ErrorList {
	n, limit := 0, c.Limits.AttributeValuesPerDevice
	for _, a := range d.Attributes {
		n += max(1, len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if n <= limit {
		return nil
	}
	return form.Total(d.At(), "attribute values", n, limit)
}

func deviceTaintsMax(d walk.Device, c Pass) field.ErrorList {
	if len(d.Taints) <= c.Limits.TaintsPerDevice || d.SameTaints() {
		return nil
	}
	return form.AtMost(d.At("taints"), len(d.Taints), c.Limits.TaintsPerDevice)
}

// sliceLimits are the rules for the sizes of a slice and its devices that a site may lower.
var sliceLimits = Table[*resourceapi.ResourceSlice]{
	{
		ID: "slice-devices-max",
		Doc: `A slice has at most 128 devices, or 64 if a device has taints, consumed counters or lists.

A taint, a consumed counter or an attribute with a list of values on any device of the
slice lowers the limit to 64, because every consumer of the slice processes them. A driver
with more devices publishes several slices in its pool. The site limits are devicesPerSlice
and devicesPerAdvancedSlice; the lower one applies to a slice with such a device.`,
		Category: Limit,
		Upstream: "128; 64 with taints or counters since 1.35, with list attributes since 1.36",
		Source:   "KEP-4381, KEP-5055, ResourceSliceMaxDevices, ResourceSliceMaxDevicesWithAdvancedFeatures",
		Check:    sliceDevicesMax,
	},
	{
		ID: "device-attributes-max",
		Doc: `A device has at most 32 attributes and capacities together.

Every CEL selector that is evaluated on the device reads all of them. The site limit is
attributesAndCapacitiesPerDevice.`,
		Category: Limit,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, ResourceSliceMaxAttributesAndCapacitiesPerDevice",
		Check:    eachDevice(deviceAttributesMax),
	},
	{
		ID: "device-attribute-values-max",
		Doc: `The attributes of a device have at most 48 values together.

An attribute with a single value counts one, an attribute with a list counts one
for each item. The site limit is attributeValuesPerDevice.`,
		Category: Limit,
		Upstream: "the same, since 1.36",
		Source:   "KEP-5491, ResourceSliceMaxAttributeValuesPerDevice",
		Check:    eachDevice(deviceAttributeValuesMax),
	},
	{
		ID: "device-taints-max",
		Doc: `A device carries at most 16 taints.

Every consumer of a slice reads all taints of all its devices, so each taint costs time in
the scheduler and in the eviction controller. Taints of DeviceTaintRules are additional and
do not count. The site limit is taintsPerDevice.`,
		Category: Limit,
		Upstream: "16 since 1.35, 4 before; since 1.35 not checked while they do not change",
		Source:   "KEP-5055, DeviceTaintsMaxLength",
		Check:    eachDevice(deviceTaintsMax),
		Update:   eachDeviceUpdate(deviceTaintsMax),
	},
}

// claimLimits are those for a claim.
var claimLimits = Table[walk.ClaimSpec]{
	{
		ID: "claim-requests-max",
		Doc: `A claim has at most 32 requests.

The site limit is requestsPerClaim.`,
		Category: Limit,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceRequestsMaxSize",
		Check:    claimRequestsMax,
	},
	{
		ID: "request-alternatives-max",
		Doc: `A request has at most 8 alternatives in firstAvailable.

The scheduler tries them in order on every node. The site limit is
alternativesPerRequest.`,
		Category: Limit,
		Upstream: "the same, since 1.33",
		Source:   "KEP-4816, FirstAvailableDeviceRequestMaxSize",
		Check:    requestAlternativesMax,
	},
}

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
func (f LimitField) in(profile apiserver.Profile) int {
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

// forProfile returns what is allowed in front of the API server of profile: l, and what that
// server allows where it is less or l says nothing.
func (l Limits) forProfile(profile apiserver.Profile) Limits {
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

func claimRequestsMax(spec walk.ClaimSpec, c Pass) field.ErrorList {
	return form.AtMost(spec.At.Child("devices", "requests"), len(spec.Devices.Requests), c.Limits.RequestsPerClaim)
}

func requestAlternativesMax(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, request := range spec.CheckedRequests(c.walks) {
		if spec.Reads(request, walk.AlternativesForm, walk.Declarative, c.walks) {
			errs = append(errs, form.AtMostIn(at, "firstAvailable", len(request.FirstAvailable), c.Limits.AlternativesPerRequest)...)
		}
	}
	return errs
}

func sliceDevicesMax(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	limit := c.Limits.DevicesPerSlice
	if len(slice.Spec.Devices) > c.Limits.DevicesPerAdvancedSlice && slices.ContainsFunc(slice.Spec.Devices, walk.Advanced) {
		limit = min(limit, c.Limits.DevicesPerAdvancedSlice)
	}
	return form.AtMost(field.NewPath("spec", "devices"), len(slice.Spec.Devices), limit)
}

// eachDevice makes a check of slices of one of devices. Where there are too many devices
// for the API server to look at each, the check does not run.
func eachDevice(check func(walk.Device, Pass) field.ErrorList) func(*resourceapi.ResourceSlice, Pass) field.ErrorList {
	update := eachDeviceUpdate(check)
	return func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList { return update(nil, slice, c) }
}

func eachDeviceUpdate(check func(walk.Device, Pass) field.ErrorList) func(old, slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	return func(old, slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
		for d := range walk.CheckedDevices(old, slice, c.walks) {
			if !d.PassedOver {
				errs = append(errs, check(d, c)...)
			}
		}
		return errs
	}
}
