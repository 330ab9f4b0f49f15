package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// bindingRules are the rules for what has to happen before a pod is bound.
var bindingRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "binding-conditions",
		Doc: `A device has at most 4 binding conditions and 4 for failure, or none of both.

They are label names, each stands once, and none means both. The scheduler waits for
all of the former and gives up at one of the latter: with only one kind of them it
would wait for ever, or for nothing.`,
		Class:  Mirror,
		Server: "the same, since 1.34, with DRADeviceBindingConditions",
		Source: "KEP-5007, BindingConditionsMaxSize, BindingFailureConditionsMaxSize",
		Check:  everyDevice(bindingConditions),
		Update: everyDeviceUpdate(bindingConditions),
	},
}

func bindingConditions(d device, c Conditions) field.ErrorList {
	binding, failure := d.BindingConditions, d.BindingFailureConditions
	switch {
	case len(binding) == 0 && len(failure) == 0 || !d.judged():
		return nil
	case d.passedOver: // only the declarative validation, which counts
		errs := atMost(d.at("bindingConditions"), len(binding), resourceapi.BindingConditionsMaxSize)
		return append(errs, atMost(d.at("bindingFailureConditions"), len(failure), resourceapi.BindingFailureConditionsMaxSize)...)
	}
	return bindingParameters(d.at(), binding, failure, c)
}

// bindingParameters reports what is wrong with the conditions of a device or a result.
func bindingParameters(at *field.Path, binding, failure []string, c Conditions) (errs field.ErrorList) {
	bindingAt, failureAt := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	errs = append(errs, labelNames(bindingAt, binding, resourceapi.BindingConditionsMaxSize, c)...)
	errs = append(errs, labelNames(failureAt, failure, resourceapi.BindingFailureConditionsMaxSize, c)...)
	sorted := slices.Sorted(slices.Values(binding))
	for i, name := range failure {
		if _, both := slices.BinarySearch(sorted, name); both {
			errs = append(errs, field.Invalid(failureAt.Index(i), name, "is a binding condition too"))
		}
	}
	switch {
	case len(binding) == 0 && len(failure) > 0:
		errs = append(errs, field.Invalid(bindingAt, len(binding), "is needed beside bindingFailureConditions"))
	case len(failure) == 0 && len(binding) > 0:
		errs = append(errs, field.Invalid(failureAt, len(failure), "is needed beside bindingConditions"))
	}
	return errs
}
