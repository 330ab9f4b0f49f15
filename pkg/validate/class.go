package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func extendedResourceUnique(class *resourceapi.DeviceClass, c Pass) field.ErrorList {
	name := class.Spec.ExtendedResourceName
	if c.ClusterView == nil || name == nil {
		return nil
	}
	for other := range c.ClusterView.Classes() {
		if theirs := other.Spec.ExtendedResourceName; other.Name != class.Name && theirs != nil && *theirs == *name {
			err := field.Duplicate(field.NewPath("spec", "extendedResourceName"), *name)
			err.Detail = "the class " + other.Name + " has the same name"
			return field.ErrorList{err}
		}
	}
	return nil
}

// classGaps are the rules for DeviceClasses that no API server has.
var classGaps = Table[*resourceapi.DeviceClass]{
	{
		ID: "class-everything",
		Doc: `A class has a selector.

A class without a selector selects every device of every driver: a claim for it can get a
GPU or a network card. It only warns, because that works in a cluster with one driver.`,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, DeviceClassSpec.Selectors",
		Check: func(class *resourceapi.DeviceClass, _ Pass) field.ErrorList {
			if len(class.Spec.Selectors) > 0 {
				return nil
			}
			return field.ErrorList{field.Required(field.NewPath("spec", "selectors"),
				"without a selector the class selects the devices of all drivers")}
		},
	},
	{
		ID:       "selector-constant",
		Doc:      constantDoc,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, CELDeviceSelector.Expression",
		Check: func(class *resourceapi.DeviceClass, _ Pass) field.ErrorList {
			return constantSelectors(field.NewPath("spec", "selectors"), class.Spec.Selectors)
		},
	},
	{
		ID: "class-extended-resource-unique",
		Doc: `An extended resource name belongs to one class.

With two classes for one extended resource name the newer class wins; of two with the same
age, the first by name. A pod that requests the resource gets other devices as soon as a
class is added. It only warns, because two classes exist for a moment while one replaces the
other.`,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "does not check",
		Source:      "KEP-5004, DeviceClassSpec.ExtendedResourceName",
		Check:       extendedResourceUnique,
	},
	selectorDevices(classSelectorDevices),
}
