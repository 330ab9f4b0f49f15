package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// requestRules are the rules for the requests of a claim or a template.
var requestRules = Table[claimSpec]{
	{
		ID: "request-name",
		Doc: `The name of a request, and of an alternative, is a DNS label.

At most 63 bytes of lower case letters, digits and "-". Pods, constraints and
configurations refer to requests by it.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceRequest.Name",
		Check:  requestName,
	},
	{
		ID: "request-name-unique",
		Doc: `The requests of a claim have different names, and so have the alternatives of a request.

Otherwise nothing could refer to the second one.`,
		Class:  Mirror,
		Server: "the same, since 1.31; 1.34 reports it at the field name",
		Source: "KEP-4381, DeviceRequest.Name, +listMapKey=name",
		Check:  requestNameUnique,
	},
	{
		ID: "request-form",
		Doc: `A request is either exact (exactly) or a list of alternatives (firstAvailable).

With none of both it asks for nothing, with both it is not clear what it asks for.`,
		Class:  Mirror,
		Server: "the same, since 1.33; 1.34 looks into both forms nevertheless",
		Source: "KEP-4816, DeviceRequest, +oneOf=deviceRequestType",
		Check:  requestForm,
	},
	{
		ID: "request-class",
		Doc: `A request, and each alternative, names a device class.

A DNS subdomain. Whether the class exists is checked when devices are allocated.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ExactDeviceRequest.DeviceClassName",
		Check:  requestClass,
	},
	{
		ID: "request-mode",
		Doc: `The allocationMode of a request is ExactCount or All.

Left out it becomes ExactCount.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceAllocationMode",
		Check:  requestMode,
	},
	{
		ID: "request-count",
		Doc: `The count of a request is greater than zero, and absent with allocationMode All.

With ExactCount it says how many devices are wanted; left out it becomes 1.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ExactDeviceRequest.Count",
		Check:  requestCount,
	},
}

func requestName(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, request := range spec.judgedRequests(c) {
		errs = append(errs, dnsLabel(at, "name", request.Name)...)
		for at, alternative := range spec.judgedAlternatives(at, request, handwritten, c) {
			errs = append(errs, dnsLabel(at, "name", alternative.Name)...)
		}
	}
	return errs
}

func requestNameUnique(spec claimSpec, c Conditions) (errs field.ErrorList) {
	requests := map[string]bool{}
	for at, request := range spec.judgedRequests(c) {
		if requests[request.Name] {
			errs = append(errs, field.Duplicate(duplicate(at, "name", c), request.Name))
		}
		requests[request.Name] = true
		alternatives := map[string]bool{}
		for at, alternative := range spec.judgedAlternatives(at, request, declarative, c) {
			if alternatives[alternative.Name] {
				errs = append(errs, field.Duplicate(duplicate(at, "name", c), alternative.Name))
			}
			alternatives[alternative.Name] = true
		}
	}
	return errs
}

func requestForm(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, request := range spec.judgedRequests(c) {
		switch {
		case twoForms(request):
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "has exactly and firstAvailable; choose one of them"))
		case request.Exactly == nil && len(request.FirstAvailable) == 0:
			errs = append(errs, field.Required(at, "write exactly for one kind of device, firstAvailable for alternatives"))
		}
	}
	return errs
}

func requestClass(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, request := range spec.judgedRequests(c) {
		if request.Exactly != nil && spec.reads(request, exactForm, handwritten, c) {
			errs = append(errs, className(at, request.Exactly.DeviceClassName, "exactly", "deviceClassName")...)
		}
		for at, alternative := range spec.judgedAlternatives(at, request, declarative, c) {
			stored := spec.storedAlternative(request, alternative.Name)
			if onlyDeclared(request, c) && stored != nil && stored.DeviceClassName == alternative.DeviceClassName {
				continue
			}
			errs = append(errs, className(at, alternative.DeviceClassName, "deviceClassName")...)
		}
	}
	return errs
}

// className reports a name of a class that stands in a field below at.
func className(at *field.Path, name, child string, more ...string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at.Child(child, more...), "name the device class")}
	}
	if messages := validation.IsDNS1123Subdomain(name); len(messages) > 0 {
		return allOf(at.Child(child, more...), name, messages)
	}
	return nil
}

func dnsLabel(at *field.Path, child, name string) field.ErrorList {
	if messages := validation.IsDNS1123Label(name); len(messages) > 0 {
		return allOf(at.Child(child), name, messages)
	}
	return nil
}

var modes = []resourceapi.DeviceAllocationMode{resourceapi.DeviceAllocationModeAll, resourceapi.DeviceAllocationModeExactCount}

func requestMode(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, demand := range spec.judgedDemands(declarative, c) {
		if demand.mode != "" && demand.mode != modes[0] && demand.mode != modes[1] {
			errs = append(errs, field.NotSupported(at.Child("allocationMode"), demand.mode, modes))
		}
	}
	return errs
}

func requestCount(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, demand := range spec.judgedDemands(handwritten, c) {
		switch {
		case demand.mode == resourceapi.DeviceAllocationModeAll && demand.count != 0:
			errs = append(errs, field.Invalid(at.Child("count"), demand.count, "must be absent: allocationMode All takes every device"))
		case (demand.mode == "" || demand.mode == resourceapi.DeviceAllocationModeExactCount) && demand.count < 0:
			errs = append(errs, field.Invalid(at.Child("count"), demand.count, "must be greater than zero"))
		}
	}
	return errs
}
