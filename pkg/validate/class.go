package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func extendedResourceUnique(class *resourceapi.DeviceClass, c Conditions) field.ErrorList {
	name := class.Spec.ExtendedResourceName
	if c.ClusterView == nil || name == nil {
		return nil
	}
	for other := range c.ClusterView.Classes() {
		if theirs := other.Spec.ExtendedResourceName; other.Name != class.Name && theirs != nil && *theirs == *name {
			err := field.Duplicate(field.NewPath("spec", "extendedResourceName"), *name)
			err.Detail = "the class " + other.Name + " stands for it too"
			return field.ErrorList{err}
		}
	}
	return nil
}

// classGaps are the rules for DeviceClasses that no API server has.
var classGaps = Table[*resourceapi.DeviceClass]{
	{
		ID: "class-everything",
		Doc: `A class selects something.

A class without a selector stands for every device of every driver: a claim for it
may get a GPU or a network card. It only warns, since a cluster with one driver may
want it so.`,
		Category: Gap,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, DeviceClassSpec.Selectors",
		Check: func(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
			if len(class.Spec.Selectors) > 0 {
				return nil
			}
			return field.ErrorList{field.Required(field.NewPath("spec", "selectors"),
				"without a selector the class stands for the devices of all drivers")}
		},
	},
	{
		ID:       "selector-constant",
		Doc:      constantDoc,
		Category: Gap,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, CELDeviceSelector.Expression",
		Check: func(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
			return constantSelectors(field.NewPath("spec", "selectors"), class.Spec.Selectors)
		},
	},
	{
		ID: "class-extended-resource-unique",
		Doc: `An extended resource stands for one class.

With two classes for one extended resource name the newer class wins, and of two that
are equally old the one whose name comes first: a pod that asks for the resource gets
other devices as soon as somebody adds a class. It only warns, since replacing a class
takes two for a moment.`,
		Category:    Gap,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "does not look",
		Source:      "KEP-5004, DeviceClassSpec.ExtendedResourceName",
		Check:       extendedResourceUnique,
	},
	selectorDevices(classSelectorDevices),
}
