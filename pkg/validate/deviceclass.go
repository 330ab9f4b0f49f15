package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DeviceClass lists the rules for DeviceClasses. Append yours here and put its
// examples into examples/<ID>.txtar.
var DeviceClass = slices.Concat(Table[*resourceapi.DeviceClass]{
	{
		ID: "class-selectors-max",
		Doc: `A class has at most 32 selectors.

Each of them is evaluated for every device of the cluster, for every claim that
names the class.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceSelectorsMaxSize",
		Check: func(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
			return atMost(field.NewPath("spec", "selectors"), len(class.Spec.Selectors), resourceapi.DeviceSelectorsMaxSize)
		},
	},
	{
		ID: "class-configs-max",
		Doc: `A class has at most 32 configurations.

All of them are copied into every allocation of a claim that names the class.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceConfigMaxSize",
		Check: func(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
			return atMost(field.NewPath("spec", "config"), len(class.Spec.Config), resourceapi.DeviceConfigMaxSize)
		},
	},
}, classGaps, extendedResourceGaps)
