package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// referenceGaps are the rules for what a claim refers to.
var referenceGaps = Table[claimSpec]{
	{
		ID: "class-exists",
		Doc: `The class that a request names exists.

A claim for a class that is not there stays pending until somebody makes the class; a
typing mistake waits for ever. It only warns, since the class may come later.`,
		Class:    Gap,
		Severity: Warning,
		Beyond:   true,
		Server:   "does not look",
		Source:   "KEP-4381, ExactDeviceRequest.DeviceClassName",
		Check:    classExists,
	},
	selectorDevices(claimSelectorDevices),
}

func classExists(spec claimSpec, c Conditions) (errs field.ErrorList) {
	if c.World == nil {
		return nil
	}
	for at, demand := range spec.demands() {
		if demand.class != "" && c.World.Class(demand.class) == nil {
			errs = append(errs, field.NotFound(at.Child("deviceClassName"), demand.class))
		}
	}
	return errs
}

// extendedResourceGaps are the rules for a class among the others.
var extendedResourceGaps = Table[*resourceapi.DeviceClass]{
	{
		ID: "class-extended-resource-unique",
		Doc: `An extended resource stands for one class.

With two classes for one extended resource name the newer class wins, and of two that
are equally old the one whose name comes first: a pod that asks for the resource gets
other devices as soon as somebody adds a class. It only warns, since replacing a class
takes two for a moment.`,
		Class:    Gap,
		Severity: Warning,
		Beyond:   true,
		Server:   "does not look",
		Source:   "KEP-5004, DeviceClassSpec.ExtendedResourceName",
		Check:    extendedResourceUnique,
	},
	selectorDevices(classSelectorDevices),
}

func extendedResourceUnique(class *resourceapi.DeviceClass, c Conditions) field.ErrorList {
	name := class.Spec.ExtendedResourceName
	if c.World == nil || name == nil {
		return nil
	}
	for other := range c.World.Classes() {
		if theirs := other.Spec.ExtendedResourceName; other.Name != class.Name && theirs != nil && *theirs == *name {
			err := field.Duplicate(field.NewPath("spec", "extendedResourceName"), *name)
			err.Detail = "the class " + other.Name + " stands for it too"
			return field.ErrorList{err}
		}
	}
	return nil
}
