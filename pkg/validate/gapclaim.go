package validate

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimGaps are the rules for claims and templates that no API server has.
var claimGaps = Table[claimSpec]{
	{
		ID: "toleration-empty-key",
		Doc: `A toleration without a key has the operator Exists.

The API documents that, and no API server checks it. With Equal, which is what a
missing operator becomes, the toleration {} tolerates every taint that has no value:
most of the taints that drivers put on broken devices. Name the key, or write
operator: Exists where every taint is meant.`,
		Class:  Gap,
		Server: "documents it, checks it in no version (1.34 to 1.37)",
		Source: "KEP-5055, DeviceToleration.Key, resourceclaim.ToleratesTaint",
		Check:  tolerationEmptyKey,
	},
	{
		ID: "toleration-seconds",
		Doc: `tolerationSeconds stands beside the effect NoExecute and is not negative.

With another effect it is ignored, and a negative number evicts at once: neither is
what it looks like. It only warns, since the API documents both.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "accepts everything; pods are refused for the same",
		Source:   "KEP-5055, DeviceToleration.TolerationSeconds",
		Check:    tolerationSeconds,
	},
	{
		ID: "constraint-one-attribute",
		Doc: `A constraint has matchAttribute or distinctAttribute, not both.

The allocator then looks at matchAttribute only, and the devices are less apart than
the author believes. Write two constraints.`,
		Class:  Gap,
		Server: "documents one of them, accepts both",
		Source: "KEP-4381, DeviceConstraint, +oneOf=ConstraintType",
		Check:  constraintOneAttribute,
	},
	{
		ID: "constraint-attribute-slashes",
		Doc: `The attribute of a constraint has one slash in its name.

A name such as a/b/c passes the API server, and no device can have it: the claim is
never allocated.`,
		Class:  Gap,
		Server: "accepts it; upstream notes it as incomplete",
		Source: "validateQualifiedName in pkg/apis/resource/validation",
		Check:  constraintAttributeSlashes,
	},
	{
		ID: "request-capacity",
		Doc: `The capacities that a request names exist in form, and are not negative.

The API server checks neither name nor quantity. A name that no device can have is
never satisfied.`,
		Class:  Gap,
		Server: "checks nothing in any version",
		Source: "KEP-5075, CapacityRequirements",
		Check:  requestCapacity,
	},
	{
		ID: "claim-empty",
		Doc: `A claim asks for something.

A claim without requests is allocated nothing; its pod starts without a device. It
only warns, since nothing breaks.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "accepts it",
		Source:   "KEP-4381, DeviceClaim.Requests",
		Check:    claimEmpty,
	},
	{
		ID:       "selector-constant",
		Doc:      constantDoc,
		Class:    Gap,
		Severity: Warning,
		Server:   "accepts it",
		Source:   "KEP-4381, CELDeviceSelector.Expression",
		Check:    selectorConstant,
	},
}

func tolerationEmptyKey(spec claimSpec, _ Conditions) (errs field.ErrorList) {
	for at, toleration := range spec.tolerations() {
		if toleration.Key == "" && toleration.Operator != resourceapi.DeviceTolerationOpExists {
			errs = append(errs, field.Required(at.Child("key"),
				"without a key the operator must be Exists, for every taint; name the key of the taints that are meant"))
		}
	}
	return errs
}

func tolerationSeconds(spec claimSpec, _ Conditions) (errs field.ErrorList) {
	for at, toleration := range spec.tolerations() {
		seconds := toleration.TolerationSeconds
		switch {
		case seconds == nil:
		case *seconds < 0:
			errs = append(errs, field.Invalid(at.Child("tolerationSeconds"), *seconds, "a negative time evicts at once; write 0 if that is meant"))
		case toleration.Effect != "" && toleration.Effect != resourceapi.DeviceTaintEffectNoExecute:
			errs = append(errs, field.Invalid(at.Child("tolerationSeconds"), *seconds, "is ignored with effect "+string(toleration.Effect)+"; only NoExecute evicts"))
		}
	}
	return errs
}

func constraintOneAttribute(spec claimSpec, _ Conditions) (errs field.ErrorList) {
	list := spec.at.Child("devices", "constraints")
	for i, constraint := range bounded(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize) {
		if constraint.MatchAttribute != nil && constraint.DistinctAttribute != nil {
			errs = append(errs, field.Invalid(list.Index(i).Child("distinctAttribute"), *constraint.DistinctAttribute,
				"is ignored beside matchAttribute; write a constraint of its own"))
		}
	}
	return errs
}

func constraintAttributeSlashes(spec claimSpec, _ Conditions) (errs field.ErrorList) {
	list := spec.at.Child("devices", "constraints")
	for i, constraint := range bounded(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize) {
		at := list.Index(i)
		errs = append(errs, slashes(at.Child("matchAttribute"), constraint.MatchAttribute)...)
		errs = append(errs, slashes(at.Child("distinctAttribute"), constraint.DistinctAttribute)...)
	}
	return errs
}

func slashes(at *field.Path, attribute *resourceapi.FullyQualifiedName) field.ErrorList {
	if attribute == nil || strings.Count(string(*attribute), "/") <= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *attribute, severalSlashes)}
}

const severalSlashes = "no device can have a name with more than one slash; write domain/name"

func requestCapacity(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, demand := range spec.demands() {
		if demand.capacity == nil {
			continue
		}
		list := at.Child("capacity", "requests")
		for _, name := range slices.Sorted(maps.Keys(demand.capacity.Requests)) {
			if strings.Count(string(name), "/") > 1 {
				errs = append(errs, field.Invalid(list, name, severalSlashes))
			}
			errs = append(errs, qualifiedName(list, string(name), c)...)
			if quantity := demand.capacity.Requests[name]; quantity.Sign() < 0 {
				errs = append(errs, field.Invalid(list.Key(string(name)), quantity.String(), "must not be negative"))
			}
		}
	}
	return errs
}

func claimEmpty(spec claimSpec, _ Conditions) field.ErrorList {
	if len(spec.Devices.Requests) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(spec.at.Child("devices", "requests"), "the claim asks for no device")}
}

func selectorConstant(spec claimSpec, _ Conditions) (errs field.ErrorList) {
	for at, demand := range spec.demands() {
		errs = append(errs, constantSelectors(at.Child("selectors"), demand.selectors)...)
	}
	return errs
}

// constantSelectors reports the selectors of a list that select all or nothing.
func constantSelectors(list *field.Path, selectors []resourceapi.DeviceSelector) (errs field.ErrorList) {
	for i, selector := range bounded(selectors, resourceapi.DeviceSelectorsMaxSize) {
		if selector.CEL == nil {
			continue
		}
		switch expression := strings.TrimSpace(selector.CEL.Expression); expression {
		case "true":
			errs = append(errs, field.Invalid(list.Index(i).Child("cel", "expression"), expression, "selects every device; leave the selector out"))
		case "false":
			errs = append(errs, field.Invalid(list.Index(i).Child("cel", "expression"), expression, "selects no device"))
		}
	}
	return errs
}

const constantDoc = `A selector looks at the device.

The expression true selects every device and false none. It only warns: either may
stand there for a while on purpose.`

// bounded returns a list for its items to be checked, nothing if it is too long.
func bounded[T any](list []T, limit int) []T {
	if len(list) > limit {
		return nil
	}
	return list
}
