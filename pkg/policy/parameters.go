package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parameterDefaults returns the parameters of every policy as its METADATA says, and
// refuses schemas that are none and defaults that they do not allow.
func parameterDefaults(all []Metadata) (map[string]map[string]any, error) {
	defaults := make(map[string]map[string]any, len(all))
	var errs []error
	for _, policy := range all {
		values := map[string]any{}
		fields, _ := policy.Parameters["properties"].(map[string]any)
		for name, field := range fields {
			schema, _ := field.(map[string]any)
			value, ok := schema["default"]
			if !ok {
				errs = append(errs, fmt.Errorf("%s: custom.parameters.properties.%s: needs a default, so that the policy works without the parameter", policy.File, name))
			}
			values[name] = value
		}
		defaults[policy.Code] = values
		if err := policy.CheckParameters(values); err != nil {
			errs = append(errs, fmt.Errorf("%s: the defaults of the parameters: %w", policy.File, err))
		}
	}
	return defaults, errors.Join(errs...)
}

// CheckParameters tells whether the policy's schema allows the parameters.
func (m Metadata) CheckParameters(values map[string]any) error {
	if m.Parameters == nil {
		if len(values) > 0 {
			return fmt.Errorf("policy %s has no parameters", m.Code)
		}
		return nil
	}
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if invalid := (*jsonschema.ValidationError)(nil); errors.As(m.schema.Validate(instance), &invalid) {
		_, problems, _ := strings.Cut(invalid.Error(), "\n")
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(problems, "- at '': "), "\n- at ", "; "))
	}
	return nil
}

// compileParameters prepares the schema of the parameters.
func (m *Metadata) compileParameters() error {
	if m.Parameters == nil {
		return nil
	}
	data, err := json.Marshal(m.Parameters)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(m.Code+".json", document); err != nil {
		return err
	}
	m.schema, err = compiler.Compile(m.Code + ".json")
	return err
}

// noLoader keeps a schema from reading files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema of parameters stands alone", url)
}
