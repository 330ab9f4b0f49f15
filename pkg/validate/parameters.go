package validate

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Parameters is what is known about the opaque parameters that drivers take.
type Parameters interface {
	// Drivers returns the drivers that something is known about, in order.
	Drivers() []string
	// KnowsDriver tells whether a driver is one of them.
	KnowsDriver(driver string) bool
	// Check judges the parameters of a driver's configuration at a place: their kind is
	// unknown, fields that are unknown, values that are wrong. It has nothing to say
	// about drivers that are unknown and about what is no JSON object.
	Check(at *field.Path, driver string, parameters []byte) (unknown, fields, values field.ErrorList)
}

// parameterRules are the rules for the parameters of a single configuration, of a claim
// or a class. An allocation repeats them: there is nothing left to correct.
var parameterRules = Table[configWalk]{
	{
		ID: "parameters-value",
		Doc: `The parameters of a configuration are what their driver takes.

The API server takes any JSON object. The driver reads it when the pod starts, and a
wrong value leaves the pod in ContainerCreating. A JSON Schema for each kind of
parameters says it beforehand, with the place: for the drivers that come with
dra-steward (policies/parameters), and for those that a site adds a schema for
(opaqueParameters.schemas in the configuration, lint --schemas). A key that stands
twice is wrong, too.`,
		Class:  Gap,
		Server: "takes any JSON object",
		Source: "the API of the driver, as its schema says",
		Check: func(configs configWalk, c Conditions) field.ErrorList {
			return parameters(configs, c, func(_, _, values field.ErrorList) field.ErrorList { return values })
		},
	},
	{
		ID: "parameters-field",
		Doc: `The parameters of a configuration have no field that their driver does not know.

Drivers that read strictly refuse it when the pod starts, others leave it out in
silence. It only warns: a driver that is newer than the schema may know the field.
Where that cannot be, the site sets this rule to error.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "takes any JSON object",
		Source:   "the API of the driver, as its schema says",
		Check: func(configs configWalk, c Conditions) field.ErrorList {
			return parameters(configs, c, func(_, fields, _ field.ErrorList) field.ErrorList { return fields })
		},
	},
	{
		ID: "parameters-kind",
		Doc: `The parameters of a configuration are of a kind that their driver has.

There are schemas for the driver, but none for this apiVersion and kind. It only
warns: a driver that is newer than the schemas may have more kinds.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "takes any JSON object",
		Source:   "the API of the driver, as its schemas say",
		Check: func(configs configWalk, c Conditions) field.ErrorList {
			return parameters(configs, c, func(unknown, _, _ field.ErrorList) field.ErrorList { return unknown })
		},
	},
	{
		ID: "parameters-driver",
		Doc: `A configuration is for a driver whose parameters are known.

Off unless a site wants to see every configuration that nobody can judge, or to allow
only those that have a schema. Whether the driver exists in the cluster at all is what
the policy DRA-CLAIM-005 looks at.`,
		Class:    Gap,
		Severity: Off,
		Server:   "takes any driver",
		Source:   "KEP-4381, OpaqueDeviceConfiguration.Driver",
		Check:    parametersDriver,
	},
}

func parameters(configs configWalk, c Conditions, which func(unknown, fields, values field.ErrorList) field.ErrorList) (errs field.ErrorList) {
	if c.Parameters == nil {
		return nil
	}
	for at, config := range configs {
		if config.Opaque == nil || len(config.Opaque.Parameters.Raw) > resourceapi.OpaqueParametersMaxLength {
			continue
		}
		errs = append(errs, which(c.Parameters.Check(at.Child("opaque", "parameters"), config.Opaque.Driver, config.Opaque.Parameters.Raw))...)
	}
	return errs
}

func parametersDriver(configs configWalk, c Conditions) (errs field.ErrorList) {
	if c.Parameters == nil {
		return nil
	}
	for at, config := range configs {
		if config.Opaque != nil && !c.Parameters.KnowsDriver(config.Opaque.Driver) {
			errs = append(errs, field.Invalid(at.Child("opaque", "driver"), config.Opaque.Driver,
				"there is no schema for the parameters of this driver; known are "+strings.Join(c.Parameters.Drivers(), ", ")))
		}
	}
	return errs
}
