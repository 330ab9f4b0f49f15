package apiserver

import (
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// configRules are the rules for a single configuration, of a claim, a class or an
// allocation.
var configRules = Table[walk.ConfigWalk]{
	{
		ID: "config-form",
		Doc: `A configuration has opaque parameters for a driver.

No other form of configuration exists yet.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceConfiguration.Opaque",
		Check:    configForm,
	},
	{
		ID: "config-driver",
		Doc: `A configuration names its driver.

The name is a DNS subdomain of at most 63 bytes; upper case is allowed. Other drivers
ignore the configuration.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, OpaqueDeviceConfiguration.Driver, DriverNameMaxLength",
		Check:    configDriver,
	},
	{
		ID: "config-parameters",
		Doc: `The parameters of a configuration are a JSON object of at most 10240 bytes.

The driver defines the content. The size limit exists since 1.32; a class whose
configurations do not change can exceed it.`,
		Upstream: "the same; the limit since 1.32",
		Source:   "KEP-4381, OpaqueDeviceConfiguration.Parameters, OpaqueParametersMaxLength",
		Check:    configParameters,
	},
}

func configForm(configs walk.ConfigWalk, _ Pass) (errs field.ErrorList) {
	for at, config := range configs {
		if config.Opaque == nil {
			errs = append(errs, field.Required(at.Child("opaque"), "write driver and parameters below opaque"))
		}
	}
	return errs
}

func configDriver(configs walk.ConfigWalk, c Pass) (errs field.ErrorList) {
	for at, config := range configs {
		if config.Opaque != nil {
			errs = append(errs, form.Driver(at.Child("opaque", "driver"), config.Opaque.Driver, c.server)...)
		}
	}
	return errs
}

func configParameters(configs walk.ConfigWalk, c Pass) (errs field.ErrorList) {
	for at, config := range configs {
		if config.Opaque != nil {
			errs = append(errs, jsonObject(at.Child("opaque", "parameters"), config.Opaque.Parameters, resourceapi.OpaqueParametersMaxLength, c)...)
		}
	}
	return errs
}

// jsonObject reports data that is no JSON object or too long.
func jsonObject(at *field.Path, data runtime.RawExtension, limit int, c Pass) field.ErrorList {
	if len(data.Raw) == 0 {
		return field.ErrorList{field.Required(at, "write a JSON object, {} for none")}
	}
	if errs := form.TooLongJSON(at, len(data.Raw), limit); errs != nil && !c.stored {
		return errs // not worth reading
	}
	var value any
	if err := json.Unmarshal(data.Raw, &value); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "is not JSON: "+err.Error())}
	}
	if value == nil {
		return field.ErrorList{field.Required(at, "write a JSON object, {} for none")}
	}
	if _, is := value.(map[string]any); !is {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a JSON object")}
	}
	return nil
}
