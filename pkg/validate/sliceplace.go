package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// slicePlaceRules are the rules for where a slice belongs: its driver, its pool and the
// nodes that can reach its devices.
var slicePlaceRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "slice-driver",
		Doc: `The driver of a slice is a DNS subdomain of at most 63 bytes.

Requests, taint rules and configurations find devices by this name, and it is the
domain of the attributes that name none.`,
		Class:  Mirror,
		Server: "the same, since 1.31; warns about upper case since 1.35",
		Source: "KEP-4381, ResourceSliceSpec.Driver, DriverNameMaxLength",
		Check: func(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
			return referredDriver(field.NewPath("spec", "driver"), slice.Spec.Driver, c)
		},
	},
	{
		ID: "slice-pool",
		Doc: `The pool of a slice has a name, a number of slices and a generation.

The name has at most 253 bytes: DNS subdomains with slashes between. There is at least
one slice, since the scheduler uses a pool once it has seen all of them; and no
generation below zero, since it uses the highest.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ResourcePool, PoolNameMaxLength",
		Check:  slicePool,
	},
	{
		ID: "slice-nodes",
		Doc: `A slice says in one way which nodes can reach its devices.

nodeName, nodeSelector with one term, allNodes or perDeviceNodeSelection: with none the
scheduler could use the devices nowhere, with two it could not tell where.`,
		Class:  Mirror,
		Server: "the same, since 1.31; perDeviceNodeSelection since 1.33",
		Source: "KEP-4381, KEP-4815, ResourceSliceSpec.NodeName",
		Check:  sliceNodes,
	},
	{
		ID: "slice-content",
		Doc: `A slice has devices or shared counters, not both.

The counters of a pool have to be known before the devices that consume them, so they
have slices of their own.`,
		Class:  Mirror,
		Server: "the same, since 1.35; in 1.34 both stand in one slice",
		Source: "KEP-4815, ResourceSliceSpec.SharedCounters",
		Check:  sliceContent,
	},
	{
		ID: "slice-immutable",
		Doc: `The driver, the pool's name and the node's name of a slice do not change.

Whoever watches the slices of a node or of a driver would lose sight of one that moves.
Delete it and publish another.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ValidateResourceSliceUpdate",
		Update: sliceImmutable,
	},
}

func sliceImmutable(old, slice *resourceapi.ResourceSlice, _ Conditions) (errs field.ErrorList) {
	const message = "cannot be changed; delete the slice and create another"
	was, is, at := &old.Spec, &slice.Spec, field.NewPath("spec")
	if was.Driver != is.Driver {
		errs = append(errs, field.Invalid(at.Child("driver"), is.Driver, message))
	}
	if was.Pool.Name != is.Pool.Name {
		errs = append(errs, field.Invalid(at.Child("pool", "name"), is.Pool.Name, message))
	}
	if !equality.Semantic.DeepEqual(was.NodeName, is.NodeName) {
		errs = append(errs, field.Invalid(at.Child("nodeName"), is.NodeName, message))
	}
	return errs
}

func slicePool(slice *resourceapi.ResourceSlice, _ Conditions) field.ErrorList {
	at, pool := field.NewPath("spec", "pool"), slice.Spec.Pool
	errs := referredPool(at.Child("name"), pool.Name)
	if pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(at.Child("resourceSliceCount"), pool.ResourceSliceCount, "must be greater than zero"))
	}
	if pool.Generation < 0 {
		errs = append(errs, field.Invalid(at.Child("generation"), pool.Generation, "must not be negative"))
	}
	return errs
}

func sliceContent(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
	if !c.Profile.Since(35) || slice.Spec.SharedCounters == nil || slice.Spec.Devices == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), "", "has sharedCounters and devices; publish them in slices of their own")}
}

func sliceNodes(slice *resourceapi.ResourceSlice, _ Conditions) (errs field.ErrorList) {
	spec, at := &slice.Spec, field.NewPath("spec")
	ways := 0
	if spec.NodeName != nil {
		if *spec.NodeName == "" {
			errs = append(errs, field.Invalid(at.Child("nodeName"), "", "must be the name of a node, or left out"))
		} else {
			ways++
			errs = append(errs, nodeName(at.Child("nodeName"), *spec.NodeName)...)
		}
	}
	if spec.NodeSelector != nil {
		ways++
		errs = append(errs, nodeSelector(at.Child("nodeSelector"), spec.NodeSelector)...)
		if n := len(spec.NodeSelector.NodeSelectorTerms); n != 1 {
			errs = append(errs, field.Invalid(at.Child("nodeSelector", "nodeSelectorTerms"), n, "must have exactly one node selector term"))
		}
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		switch {
		case flag.value == nil:
		case *flag.value:
			ways++
		default:
			errs = append(errs, field.Invalid(at.Child(flag.name), false, "must be true, or left out"))
		}
	}
	const one = "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection must be set"
	switch {
	case ways == 0:
		errs = append(errs, field.Required(at, one))
	case ways > 1:
		errs = append(errs, field.Invalid(at, ways, one))
	}
	return errs
}
