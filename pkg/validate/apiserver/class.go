package apiserver

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidate "k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// classRules are the rules for a class as a whole.
var classRules = Table[*resourceapi.DeviceClass]{
	{
		ID: "class-selectors-max",
		Doc: `A class has at most 32 selectors.

The scheduler evaluates each of them for every device of the cluster, for every claim that
names the class.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceSelectorsMaxSize",
		Check: func(class *resourceapi.DeviceClass, _ Pass) field.ErrorList {
			return form.AtMost(field.NewPath("spec", "selectors"), len(class.Spec.Selectors), resourceapi.DeviceSelectorsMaxSize)
		},
	},
	{
		ID: "class-configs-max",
		Doc: `A class has at most 32 configurations.

The scheduler copies all of them into every allocation of a claim that names the class.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceConfigMaxSize",
		Check: func(class *resourceapi.DeviceClass, _ Pass) field.ErrorList {
			return form.AtMost(field.NewPath("spec", "config"), len(class.Spec.Config), resourceapi.DeviceConfigMaxSize)
		},
	},
	{
		ID: "class-extended-resource",
		Doc: `The extendedResourceName of a class is a valid extended resource name.

It has a domain outside of kubernetes.io, a slash and a name, and no prefix "requests.". The
name has at most 63 bytes, so that a quota can use it.`,
		Upstream: "the same, since 1.34, with DRAExtendedResource",
		Source:   "KEP-5004, IsExtendedResourceName",
		Check:    classExtendedResource,
	},
}

// liftClass makes rules for classes of rules for a list of theirs. Since 1.35 an API
// server spares a list that has not changed: it was accepted before.
func liftClass[Part any](rules Table[Part], list func(*resourceapi.DeviceClass, walk.Server) (Part, any)) Table[*resourceapi.DeviceClass] {
	lifted := liftFor(func(class *resourceapi.DeviceClass, server walk.Server) Part {
		part, _ := list(class, server)
		return part
	}, rules)
	for i, rule := range rules {
		lifted[i].Update = func(old, class *resourceapi.DeviceClass, c Pass) field.ErrorList {
			_, before := list(old, c.server)
			part, now := list(class, c.server)
			c.stored = c.Profile.Since(35) && equality.Semantic.DeepEqual(before, now)
			return rule.Check(part, c)
		}
	}
	return lifted
}

func classSelectors(class *resourceapi.DeviceClass, server walk.Server) (walk.SelectorWalk, any) {
	return walk.CheckedSelectors(field.NewPath("spec", "selectors"), class.Spec.Selectors, server), class.Spec.Selectors
}

func classConfigs(class *resourceapi.DeviceClass, server walk.Server) (walk.ConfigWalk, any) {
	return walk.ClassConfigs(class, server), class.Spec.Config
}

func classExtendedResource(class *resourceapi.DeviceClass, _ Pass) field.ErrorList {
	if class.Spec.ExtendedResourceName == nil {
		return nil
	}
	return apivalidate.ExtendedResourceName(context.Background(), operation.Operation{},
		field.NewPath("spec", "extendedResourceName"), class.Spec.ExtendedResourceName, nil)
}
