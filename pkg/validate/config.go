package validate

import (
	"encoding/json"
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// configWalk walks single configurations with the path of each.
type configWalk iter.Seq2[*field.Path, *resourceapi.DeviceConfiguration]

// configRules are the rules for a single configuration, of a claim, a class or an
// allocation.
var configRules = Table[configWalk]{
	{
		ID: "config-form",
		Doc: `A configuration has opaque parameters for a driver.

There is no other form of configuration yet.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceConfiguration.Opaque",
		Check:  configForm,
	},
	{
		ID: "config-driver",
		Doc: `A configuration names the driver that it is for.

The name is a DNS subdomain of at most 63 bytes, upper case allowed. Other drivers
pass the configuration over.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, OpaqueDeviceConfiguration.Driver, DriverNameMaxLength",
		Check:  configDriver,
	},
	{
		ID: "config-parameters",
		Doc: `The parameters of a configuration are a JSON object of at most 10240 bytes.

What is in it is between its author and the driver. Since 1.32 there is a limit; a
class whose configurations stay as they are may exceed it.`,
		Class:  Mirror,
		Server: "the same; the limit since 1.32",
		Source: "KEP-4381, OpaqueDeviceConfiguration.Parameters, OpaqueParametersMaxLength",
		Check:  configParameters,
	},
}

func configForm(configs configWalk, _ Conditions) (errs field.ErrorList) {
	for at, config := range configs {
		if config.Opaque == nil {
			errs = append(errs, field.Required(at.Child("opaque"), "write driver and parameters below opaque"))
		}
	}
	return errs
}

func configDriver(configs configWalk, c Conditions) (errs field.ErrorList) {
	for at, config := range configs {
		if config.Opaque != nil {
			errs = append(errs, referredDriver(at.Child("opaque", "driver"), config.Opaque.Driver, c)...)
		}
	}
	return errs
}

func configParameters(configs configWalk, c Conditions) (errs field.ErrorList) {
	for at, config := range configs {
		if config.Opaque != nil {
			errs = append(errs, jsonObject(at.Child("opaque", "parameters"), config.Opaque.Parameters, resourceapi.OpaqueParametersMaxLength, c)...)
		}
	}
	return errs
}

// jsonObject reports data that is no JSON object or too long.
func jsonObject(at *field.Path, data runtime.RawExtension, limit int, c Conditions) field.ErrorList {
	if len(data.Raw) == 0 {
		return field.ErrorList{field.Required(at, "write a JSON object, {} for none")}
	}
	if errs := tooLong(at, len(data.Raw), limit); errs != nil && !c.stored {
		return errs // not worth reading
	}
	var value any
	if err := json.Unmarshal(data.Raw, &value); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "is no JSON: "+err.Error())}
	}
	if value == nil {
		return field.ErrorList{field.Required(at, "write a JSON object, {} for none")}
	}
	if _, is := value.(map[string]any); !is {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a JSON object")}
	}
	return nil
}

// judgedConfigs walks the configurations of a claim that an API server looks at.
func (s claimSpec) judgedConfigs(c Conditions) configWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceConfiguration) bool) {
		list := s.at.Child("devices", "config")
		configs := judged(s.Devices.Config, resourceapi.DeviceConfigMaxSize, c)
		for i := range configs {
			if !yield(list.Index(i), &configs[i].DeviceConfiguration) {
				return
			}
		}
	}
}
