package validate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// claimGaps are the rules for claims and templates that no API server has.
var claimGaps = Table[walk.ClaimSpec]{
	{
		ID: "claim-devices-max",
		Doc: `A claim requests at most 32 devices in total.

An allocation holds at most 32 devices. The API server stores a claim that requests more,
and its pod stays pending indefinitely. For a request with alternatives the smallest one
counts; allocationMode All counts as one device, because the number is not known. The site
limit is devicesPerClaim.`,
		Upstream: "no version checks it; the allocator fails with \"exceeds the claim limit\"",
		Source:   "KEP-4381, AllocationResultsMaxSize",
		Check:    claimDevicesMax,
	},
	{
		ID: "request-tolerations-max",
		Doc: `A request, and each alternative of a request, has at most 16 tolerations.

The API documents this limit and no API server enforces it: a claim with 1000 tolerations
is stored. The scheduler copies them into the result for every allocated device and compares
each with every taint of every device, so one claim can slow down scheduling for all. The
site limit is tolerationsPerRequest.`,
		Upstream: "documents it, enforces it in no version (1.34 to 1.37)",
		Source:   "KEP-5055, DeviceTolerationsMaxLength",
		Check:    requestTolerationsMax,
	},
	{
		ID: "toleration-empty-key",
		Doc: `A toleration without a key has the operator Exists.

The API documents this, and no API server checks it. With Equal, the default operator, the
toleration {} tolerates every taint without a value: most of the taints that drivers set on
broken devices. Name the key, or write operator: Exists to tolerate every taint.`,
		Upstream: "documents it, checks it in no version (1.34 to 1.37)",
		Source:   "KEP-5055, DeviceToleration.Key, resourceclaim.ToleratesTaint",
		Check:    tolerationEmptyKey,
	},
	{
		ID: "toleration-seconds",
		Doc: `tolerationSeconds needs the effect NoExecute and is not negative.

With another effect, or an empty one, it is ignored: the toleration has no end. A negative number
evicts immediately. It only warns, because the API documents both.`,
		Severity: Warning,
		Upstream: "accepts everything; pods are refused for the same",
		Source:   "KEP-5055, DeviceToleration.TolerationSeconds",
		Check:    tolerationSeconds,
	},
	{
		ID: "toleration-seconds-max",
		Doc: `A toleration for NoExecute ends no later than the site allows.

Off unless a rule of defaults.tolerations has maxSeconds. The mutating webhook lowers what is
longer, sets what is missing, and expands an empty effect, which includes NoExecute and has no end,
whatever its tolerationSeconds are. A write that it did not change, because it was down or because
the change found no room, is refused. What is stored stays, and so do claims that the claim
controller copies from a template.`,
		Upstream: "has no maximum",
		Source:   "KEP-5055, DeviceToleration.TolerationSeconds",
		Check:    tolerationSecondsMax,
	},
	{
		ID: "constraint-one-attribute",
		Doc: `A constraint has matchAttribute or distinctAttribute, not both.

With both, the allocator ignores distinctAttribute. Write two constraints.`,
		Upstream: "documents one of them, accepts both",
		Source:   "KEP-4381, DeviceConstraint, +oneOf=ConstraintType",
		Check:    constraintOneAttribute,
	},
	{
		ID: "constraint-attribute-slashes",
		Doc: `The attribute of a constraint has one slash in its name.

The API server accepts a name such as a/b/c, and no device can have it: the claim is
never allocated.`,
		Upstream: "accepts it; upstream notes it as incomplete",
		Source:   "validateQualifiedName in pkg/apis/resource/validation",
		Check:    constraintAttributeSlashes,
	},
	{
		ID: "request-capacity",
		Doc: `The capacities in a request have valid names and are not negative.

The API server checks neither name nor quantity. A request with a name that no device can
have is never satisfied.`,
		Upstream: "checks nothing in any version",
		Source:   "KEP-5075, CapacityRequirements",
		Check:    requestCapacity,
	},
	{
		ID: "claim-empty",
		Doc: `A claim has a request.

A claim without requests is allocated no device; its pod starts without one. It only warns,
because nothing fails.`,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, DeviceClaim.Requests",
		Check:    claimEmpty,
	},
	{
		ID:       "selector-constant",
		Doc:      constantDoc,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, CELDeviceSelector.Expression",
		Check:    selectorConstant,
	},
	{
		ID: "class-exists",
		Doc: `The class that a request names exists.

A claim for a class that does not exist stays pending until the class is created; with a
typing error, indefinitely. It only warns, because the class can be created later.`,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "does not check",
		Source:      "KEP-4381, ExactDeviceRequest.DeviceClassName",
		Check:       classExists,
	},
	selectorDevices(claimSelectorDevices),
}

func tolerationEmptyKey(spec walk.ClaimSpec, _ Pass) (errs field.ErrorList) {
	for place, deviceRequest := range spec.DeviceRequests() {
		for i, toleration := range walk.Bounded(deviceRequest.Tolerations, resourceapi.DeviceTolerationsMaxLength) {
			if toleration.Key == "" && toleration.Operator != resourceapi.DeviceTolerationOpExists {
				errs = append(errs, field.Required(place.At("tolerations").Index(i).Child("key"),
					"without a key the operator must be Exists, which tolerates every taint; name the key of the taints to tolerate"))
			}
		}
	}
	return errs
}

func tolerationSeconds(spec walk.ClaimSpec, _ Pass) (errs field.ErrorList) {
	for place, deviceRequest := range spec.DeviceRequests() {
		for i, toleration := range walk.Bounded(deviceRequest.Tolerations, resourceapi.DeviceTolerationsMaxLength) {
			problem := ""
			switch seconds := toleration.TolerationSeconds; {
			case seconds == nil:
			case toleration.Effect == "":
				problem = "is ignored without an effect, so the toleration has no end; write effect NoExecute"
			case toleration.Effect != resourceapi.DeviceTaintEffectNoExecute:
				problem = "is ignored with effect " + string(toleration.Effect) + "; only NoExecute evicts"
			case *seconds < 0:
				problem = "a negative time evicts immediately; write 0 for that"
			}
			if problem != "" {
				errs = append(errs, field.Invalid(place.At("tolerations").Index(i).Child("tolerationSeconds"), *toleration.TolerationSeconds, problem))
			}
		}
	}
	return errs
}

func tolerationSecondsMax(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	if c.MaxTolerationSeconds == nil {
		return nil
	}
	for place, deviceRequest := range spec.DeviceRequests() {
		limit := c.MaxTolerationSeconds(deviceRequest.Class)
		if limit == nil {
			continue
		}
		for i, toleration := range walk.Bounded(deviceRequest.Tolerations, resourceapi.DeviceTolerationsMaxLength) {
			at := place.At("tolerations").Index(i).Child("tolerationSeconds")
			switch {
			case toleration.Effect == "":
				errs = append(errs, field.Required(place.At("tolerations").Index(i).Child("effect"), fmt.Sprintf(
					"without an effect a toleration has no end, and one for NoExecute must end after at most %d seconds on this site; write the effects that are needed", *limit)))
			case toleration.Effect != resourceapi.DeviceTaintEffectNoExecute:
			case toleration.TolerationSeconds == nil:
				errs = append(errs, field.Required(at, fmt.Sprintf("a toleration for NoExecute must end after at most %d seconds on this site", *limit)))
			case *toleration.TolerationSeconds > *limit:
				errs = append(errs, field.Invalid(at, *toleration.TolerationSeconds, fmt.Sprintf("must be at most %d on this site", *limit)))
			}
		}
	}
	return errs
}

func constraintOneAttribute(spec walk.ClaimSpec, _ Pass) (errs field.ErrorList) {
	list := spec.At.Child("devices", "constraints")
	for i, constraint := range walk.Bounded(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize) {
		if constraint.MatchAttribute != nil && constraint.DistinctAttribute != nil {
			errs = append(errs, field.Invalid(list.Index(i).Child("distinctAttribute"), *constraint.DistinctAttribute,
				"is ignored together with matchAttribute; write a separate constraint"))
		}
	}
	return errs
}

func constraintAttributeSlashes(spec walk.ClaimSpec, _ Pass) (errs field.ErrorList) {
	list := spec.At.Child("devices", "constraints")
	for i, constraint := range walk.Bounded(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize) {
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

func requestCapacity(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for place, deviceRequest := range spec.DeviceRequests() {
		if deviceRequest.Capacity == nil {
			continue
		}
		list := place.At("capacity", "requests")
		for _, name := range slices.Sorted(maps.Keys(deviceRequest.Capacity.Requests)) {
			if strings.Count(string(name), "/") > 1 {
				errs = append(errs, field.Invalid(list, name, severalSlashes))
			}
			errs = append(errs, form.QualifiedName(list, string(name), c.walks)...)
			if quantity := deviceRequest.Capacity.Requests[name]; quantity.Sign() < 0 {
				errs = append(errs, field.Invalid(list.Key(string(name)), quantity.String(), "must not be negative"))
			}
		}
	}
	return errs
}

func claimEmpty(spec walk.ClaimSpec, _ Pass) field.ErrorList {
	if len(spec.Devices.Requests) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(spec.At.Child("devices", "requests"), "the claim requests no device")}
}

func selectorConstant(spec walk.ClaimSpec, _ Pass) (errs field.ErrorList) {
	for place, deviceRequest := range spec.DeviceRequests() {
		if len(deviceRequest.Selectors) > 0 {
			errs = append(errs, constantSelectors(place.At("selectors"), deviceRequest.Selectors)...)
		}
	}
	return errs
}

// constantSelectors reports the selectors of a list that select all or nothing.
func constantSelectors(list *field.Path, selectors []resourceapi.DeviceSelector) (errs field.ErrorList) {
	for i, selector := range walk.Bounded(selectors, resourceapi.DeviceSelectorsMaxSize) {
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

const constantDoc = `A selector depends on the device.

The expression true selects every device and false selects none. It only warns, because
either can be a temporary intention.`

// Parameters is what is known about the opaque parameters that drivers take.
type Parameters interface {
	// Drivers returns the drivers that something is known about, in order.
	Drivers() []string
	// KnowsDriver reports whether a driver is one of them.
	KnowsDriver(driver string) bool
	// Check checks the parameters of a driver's configuration at a place. It has nothing to say
	// about drivers that are unknown.
	Check(at *field.Path, driver string, parameters []byte) ParameterProblems
}

// ParameterProblems are what is wrong with the parameters of one configuration.
type ParameterProblems struct {
	// Unreadable says why the parameters could not be checked.
	Unreadable field.ErrorList
	// Kind is about parameters of a kind without a schema, while there are others for the driver.
	Kind field.ErrorList
	// Fields are those that the schema does not have.
	Fields field.ErrorList
	// Choices are values that a schema that comes with dra-steward does not list; a newer driver may have them.
	Choices field.ErrorList
	// Values are what contradicts the schema: a wrong or missing value, a duplicate key.
	Values field.ErrorList
}

// parameterRules are the rules for the parameters of a single configuration, of a claim
// or a class. An allocation repeats them: there is nothing left to correct.
var parameterRules = Table[walk.ConfigWalk]{
	{
		ID: "parameters-value",
		Doc: `The parameters of a configuration match the schema of their driver.

The API server accepts any JSON object. The driver reads it when the pod starts, and a wrong
value leaves the pod in ContainerCreating. A JSON Schema for each kind of parameters finds
the error earlier, with its position. Schemas for some drivers come with dra-steward
(policies/parameters); a site can add more (opaqueParameters.schemas in the configuration,
lint --schemas). A duplicate key is an error, too, and so is what cannot be checked: text that is
no JSON object, and a number of more than 1024 digits or with an exponent beyond 999.`,
		Upstream: "accepts any JSON object",
		Source:   "the API of the driver, as its schema says",
		Check: func(configs walk.ConfigWalk, c Pass) field.ErrorList {
			return parameters(configs, c, func(p ParameterProblems) field.ErrorList { return slices.Concat(p.Unreadable, p.Values) })
		},
	},
	{
		ID: "parameters-field",
		Doc: `The parameters of a configuration have only fields that their driver knows.

Drivers with strict decoding refuse an unknown field when the pod starts; others ignore it.
It only warns, because a driver that is newer than the schema can know the field. A site
that rules this out sets the rule to error.`,
		Severity: Warning,
		Upstream: "accepts any JSON object",
		Source:   "the API of the driver, as its schema says",
		Check: func(configs walk.ConfigWalk, c Pass) field.ErrorList {
			return parameters(configs, c, func(p ParameterProblems) field.ErrorList { return p.Fields })
		},
	},
	{
		ID: "parameters-choice",
		Doc: `A value that has several choices is one of those that are known.

The schemas that come with dra-steward list the choices of a release of the driver. It only
warns, because a newer driver can have more choices with the same apiVersion. A site that rules
this out sets the rule to error. In a schema of the site itself the list is complete, and
another value violates parameters-value.`,
		Severity: Warning,
		Upstream: "accepts any JSON object",
		Source:   "the API of the driver, as its schema says",
		Check: func(configs walk.ConfigWalk, c Pass) field.ErrorList {
			return parameters(configs, c, func(p ParameterProblems) field.ErrorList { return p.Choices })
		},
	},
	{
		ID: "parameters-kind",
		Doc: `The parameters of a configuration have a kind that their driver defines.

There are schemas for the driver, but not for this apiVersion and kind. It only warns,
because a driver that is newer than the schemas can have more kinds.`,
		Severity: Warning,
		Upstream: "accepts any JSON object",
		Source:   "the API of the driver, as its schemas say",
		Check: func(configs walk.ConfigWalk, c Pass) field.ErrorList {
			return parameters(configs, c, func(p ParameterProblems) field.ErrorList { return p.Kind })
		},
	},
	{
		ID: "parameters-driver",
		Doc: `A configuration is for a driver with a schema.

Off by default. A site can enable it to find every configuration that cannot be checked, or
to allow only drivers with a schema. The policy DRA-CLAIM-005 checks that the driver exists
in the cluster.`,
		Severity: Off,
		Upstream: "accepts any driver",
		Source:   "KEP-4381, OpaqueDeviceConfiguration.Driver",
		Check:    parametersDriver,
	},
}

func parameters(configs walk.ConfigWalk, c Pass, which func(ParameterProblems) field.ErrorList) (errs field.ErrorList) {
	if c.Parameters == nil {
		return nil
	}
	for at, config := range configs {
		if config.Opaque == nil || !c.Parameters.KnowsDriver(config.Opaque.Driver) {
			continue
		}
		errs = append(errs, which(c.parametersOf(at.Child("opaque", "parameters"), config.Opaque))...)
	}
	return errs
}

func parametersDriver(configs walk.ConfigWalk, c Pass) (errs field.ErrorList) {
	if c.Parameters == nil {
		return nil
	}
	for at, config := range configs {
		if config.Opaque != nil && !c.Parameters.KnowsDriver(config.Opaque.Driver) {
			errs = append(errs, field.Invalid(at.Child("opaque", "driver"), config.Opaque.Driver,
				"no schema for the parameters of this driver; drivers with schemas: "+strings.Join(c.Parameters.Drivers(), ", ")))
		}
	}
	return errs
}

func claimDevicesMax(spec walk.ClaimSpec, c Pass) field.ErrorList {
	var sum int64 // of at most 32 numbers below 2^31
	for _, request := range spec.Requests() {
		sum += min(fewest(request), math.MaxInt32)
	}
	return form.Total(spec.At.Child("devices", "requests"), "requested devices", int(sum), c.Limits.DevicesPerClaim)
}

// fewest returns the smallest number of devices that satisfies request.
func fewest(request *resourceapi.DeviceRequest) int64 {
	var least int64
	for _, deviceRequest := range walk.DeviceRequestsOf(request) {
		n := int64(1)
		if deviceRequest.Mode != resourceapi.DeviceAllocationModeAll {
			n = max(deviceRequest.Count, 1)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

func requestTolerationsMax(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for place, deviceRequest := range spec.DeviceRequests() {
		if n, limit := len(deviceRequest.Tolerations), c.Limits.TolerationsPerRequest; n > limit {
			errs = append(errs, field.TooMany(place.At("tolerations"), n, limit))
		}
	}
	return errs
}

func classExists(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	if c.ClusterView == nil {
		return nil
	}
	for place, deviceRequest := range spec.DeviceRequests() {
		if deviceRequest.Class != "" && c.ClusterView.Class(deviceRequest.Class) == nil {
			errs = append(errs, field.NotFound(place.At("deviceClassName"), deviceRequest.Class))
		}
	}
	return errs
}
