package apiserver

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// nodeSelector says of a node selector what ValidateNodeSelector of the API server
// says, which cannot be imported.
func nodeSelector(at *field.Path, selector *corev1.NodeSelector) (errs field.ErrorList) {
	terms := at.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "name at least one term; without one no node matches")}
	}
	for i, term := range selector.NodeSelectorTerms {
		for j, r := range term.MatchExpressions {
			errs = append(errs, labelRequirement(terms.Index(i).Child("matchExpressions").Index(j), r)...)
		}
		for j, r := range term.MatchFields {
			errs = append(errs, fieldRequirement(terms.Index(i).Child("matchFields").Index(j), r)...)
		}
	}
	return errs
}

func labelRequirement(at *field.Path, r corev1.NodeSelectorRequirement) (errs field.ErrorList) {
	values := at.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "operators In and NotIn compare with values"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "operators Exists and DoesNotExist take no values"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "operators Gt and Lt compare with one value"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "choose In, NotIn, Exists, DoesNotExist, Gt or Lt"))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
	for i, value := range r.Values {
		errs = append(errs, labelValue(values.Index(i), value)...)
	}
	return errs
}

func fieldRequirement(at *field.Path, r corev1.NodeSelectorRequirement) (errs field.ErrorList) {
	values := at.Child("values")
	switch {
	case r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "choose In or NotIn for a field"))
	case len(r.Values) != 1:
		errs = append(errs, field.Required(values, "a field is compared with one value"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(at.Child("key"), r.Key, "the only field that can be selected by is metadata.name"))
	}
	for i, value := range r.Values {
		errs = append(errs, nodeName(values.Index(i), value)...)
	}
	return errs
}

func nodeName(at *field.Path, name string) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, message))
	}
	return errs
}

// partitionRules are the rules for fields of a slice that came with 1.37.
var partitionRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "partition-type",
		Doc: `partitionTypeAttribute names a string attribute of every device that consumes counters.

The name has a domain. The status of a pool counts the free devices by the values of
this attribute, so each of these devices needs a value.`,
		Upstream: "the same, since 1.37, with DRAPartitionableDevicesType",
		Source:   "KEP-5677, ResourceSliceSpec.PartitionTypeAttribute",
		Check: func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
			return partitionType(nil, slice, c)
		},
		Update: partitionType,
	},
	{
		ID: "skip-node-operations",
		Doc: `skipNodeOperations names each operation once, and skips preparing only with unpreparing.

The operations are NodePrepareResources, NodeUnprepareResources, or * for all. A kubelet
that does not prepare a device cannot unprepare it.`,
		Upstream: "the same, since 1.37, with DRAOptionalNodeOperations",
		Source:   "KEP-5945, ResourceSliceSpec.SkipNodeOperations",
		Check: func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
			return sliceOperations(nil, slice, c)
		},
		Update: sliceOperations,
	},
}

func partitionType(old, slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	name := slice.Spec.PartitionTypeAttribute
	if name == nil {
		return nil
	}
	at := field.NewPath("spec", "partitionTypeAttribute")
	if old == nil || old.Spec.PartitionTypeAttribute == nil || *old.Spec.PartitionTypeAttribute != *name {
		if c.Profile.Enabled(gatePartitionableDevicesType) {
			errs = declaredAttribute(at, *name)
		} else {
			errs = field.ErrorList{field.Forbidden(at, "needs the feature gate "+string(gatePartitionableDevicesType))}
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
	places := walk.DevicePlaces(slice)
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
			errs = append(errs, field.Required(places.At(i).Child("attributes").Key(name), "the device consumes counters, so it needs the attribute that partitionTypeAttribute names"))
		case attribute.StringValue == nil:
			errs = append(errs, field.Invalid(places.At(i).Child("attributes").Key(name), name, "must be a string, because partitionTypeAttribute names it"))
		}
	}
	return errs
}

func sliceOperations(old, slice *resourceapi.ResourceSlice, _ Pass) field.ErrorList {
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

// slicePlaceRules are the rules for where a slice belongs: its driver, its pool and the
// nodes that can reach its devices.
var slicePlaceRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "slice-driver",
		Doc: `The driver of a slice is a DNS subdomain of at most 63 bytes.

Requests, taint rules and configurations refer to devices by this name. It is also the
domain of attributes without one.`,
		Upstream: "the same, since 1.31; warns about upper case since 1.35",
		Source:   "KEP-4381, ResourceSliceSpec.Driver, DriverNameMaxLength",
		Check: func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
			return form.Driver(field.NewPath("spec", "driver"), slice.Spec.Driver, c.server)
		},
	},
	{
		ID: "slice-pool",
		Doc: `The pool of a slice has a name, a number of slices and a generation.

The name has at most 253 bytes: DNS subdomains, separated by slashes. resourceSliceCount is
at least 1, because the scheduler uses a pool once it has all of its slices. The generation
is not negative, because the scheduler uses the highest one.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, ResourcePool, PoolNameMaxLength",
		Check:    slicePool,
	},
	{
		ID: "slice-nodes",
		Doc: `A slice defines in exactly one way which nodes can access its devices.

The ways are nodeName, nodeSelector with one term, allNodes and perDeviceNodeSelection.
Without one the devices are usable on no node; two can contradict each other.`,
		Upstream: "the same, since 1.31; perDeviceNodeSelection since 1.33",
		Source:   "KEP-4381, KEP-4815, ResourceSliceSpec.NodeName",
		Check:    sliceNodes,
	},
	{
		ID: "slice-content",
		Doc: `A slice has devices or shared counters, not both.

Consumers need the counters of a pool before the devices that consume them, so counters
have separate slices.`,
		Upstream: "the same, since 1.35; in 1.34 both are in one slice",
		Source:   "KEP-4815, ResourceSliceSpec.SharedCounters",
		Check:    sliceContent,
	},
	{
		ID: "slice-immutable",
		Doc: `The driver, the pool's name and the node's name of a slice do not change.

Clients that watch the slices of one node or driver would miss the change. Delete the slice
and publish another.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, ValidateResourceSliceUpdate",
		Update:   sliceImmutable,
	},
}

func sliceImmutable(old, slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
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

func slicePool(slice *resourceapi.ResourceSlice, _ Pass) field.ErrorList {
	at, pool := field.NewPath("spec", "pool"), slice.Spec.Pool
	errs := form.Pool(at.Child("name"), pool.Name)
	if pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(at.Child("resourceSliceCount"), pool.ResourceSliceCount, "must be greater than zero"))
	}
	if pool.Generation < 0 {
		errs = append(errs, field.Invalid(at.Child("generation"), pool.Generation, "must not be negative"))
	}
	return errs
}

func sliceContent(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	if !c.Profile.Since(35) || slice.Spec.SharedCounters == nil || slice.Spec.Devices == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), "", "has sharedCounters and devices; publish them in separate slices")}
}

func sliceNodes(slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
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
