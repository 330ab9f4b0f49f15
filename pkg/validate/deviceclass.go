package validate

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidate "k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DeviceClass lists the rules for DeviceClasses. Append yours here and put its
// examples into examples/<ID>.txtar.
var DeviceClass = slices.Concat(classMetadata, Table[*resourceapi.DeviceClass]{
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
	{
		ID: "class-extended-resource",
		Doc: `The extendedResourceName of a class is a name that a container can ask for.

A domain and a name with a slash between, outside of kubernetes.io, without the prefix
"requests.", and short enough for a quota: the name has at most 63 bytes.`,
		Class:  Mirror,
		Server: "the same, since 1.34, with DRAExtendedResource",
		Source: "KEP-5004, IsExtendedResourceName",
		Check:  classExtendedResource,
	},
}, liftClass(selectorRules, classSelectors), liftClass(configRules, classConfigs),
	liftFor(classParameters, parameterRules), classGaps, extendedResourceGaps)

// liftClass makes rules for classes of rules for a list of theirs. Since 1.35 an API
// server spares a list that has not changed: it was accepted before.
func liftClass[Part any](rules Table[Part], list func(*resourceapi.DeviceClass, Conditions) (Part, any)) Table[*resourceapi.DeviceClass] {
	lifted := liftFor(func(class *resourceapi.DeviceClass, c Conditions) Part {
		part, _ := list(class, c)
		return part
	}, rules)
	for i, rule := range rules {
		lifted[i].Update = func(old, class *resourceapi.DeviceClass, c Conditions) field.ErrorList {
			_, before := list(old, c)
			part, now := list(class, c)
			c.stored = c.Profile.Since(35) && equality.Semantic.DeepEqual(before, now)
			return rule.Check(part, c)
		}
	}
	return lifted
}

func classSelectors(class *resourceapi.DeviceClass, c Conditions) (selectorWalk, any) {
	return judgedSelectors(field.NewPath("spec", "selectors"), class.Spec.Selectors, c), class.Spec.Selectors
}

func classConfigs(class *resourceapi.DeviceClass, c Conditions) (configWalk, any) {
	return func(yield func(*field.Path, *resourceapi.DeviceConfiguration) bool) {
		list := field.NewPath("spec", "config")
		configs := judged(class.Spec.Config, resourceapi.DeviceConfigMaxSize, c)
		for i := range configs {
			if !yield(list.Index(i), &configs[i].DeviceConfiguration) {
				return
			}
		}
	}, class.Spec.Config
}

func classParameters(class *resourceapi.DeviceClass, c Conditions) configWalk {
	configs, _ := classConfigs(class, c)
	return configs
}

func classExtendedResource(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
	if class.Spec.ExtendedResourceName == nil {
		return nil
	}
	return apivalidate.ExtendedResourceName(context.Background(), operation.Operation{},
		field.NewPath("spec", "extendedResourceName"), class.Spec.ExtendedResourceName, nil)
}
