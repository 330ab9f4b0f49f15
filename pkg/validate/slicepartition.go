package validate

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// partitionRules are the rules for fields of a slice that came with 1.37.
var partitionRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "partition-type",
		Doc: `partitionTypeAttribute names a text that every device has which consumes counters.

The name has a domain. The status of a pool counts the free devices by the values of
this attribute, and could not say of which kind a device without it is.`,
		Class:  Mirror,
		Server: "the same, since 1.37, with DRAPartitionableDevicesType",
		Source: "KEP-5677, ResourceSliceSpec.PartitionTypeAttribute",
		Check: func(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
			return partitionType(nil, slice, c)
		},
		Update: partitionType,
	},
	{
		ID: "skip-node-operations",
		Doc: `skipNodeOperations names operations, each once, and preparing only with its end.

NodePrepareResources, NodeUnprepareResources or * for all. A kubelet that does not
prepare a device must not be asked to end that either.`,
		Class:  Mirror,
		Server: "the same, since 1.37, with DRAOptionalNodeOperations",
		Source: "KEP-5945, ResourceSliceSpec.SkipNodeOperations",
		Check: func(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
			return sliceOperations(nil, slice, c)
		},
		Update: sliceOperations,
	},
}

func partitionType(old, slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	name := slice.Spec.PartitionTypeAttribute
	if name == nil {
		return nil
	}
	at := field.NewPath("spec", "partitionTypeAttribute")
	if old == nil || old.Spec.PartitionTypeAttribute == nil || *old.Spec.PartitionTypeAttribute != *name {
		if c.Profile.Enabled(DRAPartitionableDevicesType) {
			errs = declaredAttribute(at, *name)
		} else {
			errs = field.ErrorList{field.Forbidden(at, "needs the feature gate "+string(DRAPartitionableDevicesType))}
		}
	}
	consumes := func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 }
	if !slices.ContainsFunc(slice.Spec.Devices, consumes) {
		return append(errs, field.Invalid(at, *name, "is for slices with devices that consume counters"))
	}
	if len(referredAttribute(at, *name, c)) > 0 {
		return errs
	}
	return append(errs, untyped(slice, string(*name))...)
}

// untyped reports the devices that consume counters and lack the attribute.
func untyped(slice *resourceapi.ResourceSlice, name string) (errs field.ErrorList) {
	bare := strings.TrimPrefix(name, slice.Spec.Driver+"/")
	places := devicePlaces(slice)
	for i, d := range slice.Spec.Devices {
		if len(d.ConsumesCounters) == 0 {
			continue
		}
		attribute, has := d.Attributes[resourceapi.QualifiedName(name)]
		if !has {
			attribute, has = d.Attributes[resourceapi.QualifiedName(bare)]
		}
		switch {
		case !has:
			errs = append(errs, field.Required(places.at(i).Child("attributes").Key(name), "the device consumes counters, so it needs the attribute that partitionTypeAttribute names"))
		case attribute.StringValue == nil:
			errs = append(errs, field.Invalid(places.at(i).Child("attributes").Key(name), name, "must be a string, since partitionTypeAttribute names it"))
		}
	}
	return errs
}

func sliceOperations(old, slice *resourceapi.ResourceSlice, _ Conditions) field.ErrorList {
	list := slice.Spec.SkipNodeOperations
	errs := skippedOperations(field.NewPath("spec", "skipNodeOperations"), list)
	if old == nil || len(errs) == 0 {
		return errs
	}
	// Declarative validation looks neither at an unchanged list nor at a known item again.
	stored := map[any]bool{}
	for _, operation := range old.Spec.SkipNodeOperations {
		stored[operation] = true
	}
	same := slices.Equal(list, old.Spec.SkipNodeOperations)
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return err.Type == field.ErrorTypeDuplicate && same || err.Type == field.ErrorTypeNotSupported && stored[err.BadValue]
	})
}
