package main

import (
	"context"
	"maps"
	"slices"

	"github.com/dra-steward/dra-steward/internal/rulebook"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// ownCode is the code of a policy that is not in the library.
var ownCode = object{"pattern": "^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$", "not": object{"pattern": "^DRA-"}}

// addNames adds to the schema of the configuration which rules, policies and parameters of
// policies exist, so that a typing mistake is found when the chart is rendered. A site's own
// policies are not known to the chart.
func addNames(configuration object) error {
	library, err := policy.Parse(context.Background(), policy.Library())
	if err != nil {
		return err
	}
	codes, parameters := []any{}, object{}
	for _, p := range library.Policies() {
		codes = append(codes, p.Code)
		known := object{}
		fields, _ := p.Parameters["properties"].(map[string]any)
		for name := range fields {
			known[name] = object{}
		}
		parameters[p.Code] = object{"type": "object", "additionalProperties": false, "properties": known}
	}
	policyNames := []any{object{"enum": codes}, ownCode}
	rules := object{"enum": ruleIDs()}
	for _, change := range []struct {
		path string
		more object
	}{
		{"policies.modes", object{"propertyNames": object{"anyOf": policyNames}}},
		{"policies.parameters", object{"propertyNames": object{"anyOf": policyNames}, "properties": parameters}},
		{"policies.namespaces.modes", object{"propertyNames": object{"anyOf": policyNames}}},
		{"policies.namespaces.parameters", object{"propertyNames": object{"anyOf": policyNames}, "properties": parameters}},
		{"rules", object{"propertyNames": rules}},
		{"exemptions.rules", object{"items": object{"type": "string", "anyOf": append([]any{object{"enum": []any{"*"}}, rules}, policyNames...)}}},
	} {
		field, err := lookUp(configuration, change.path)
		if err != nil {
			return err
		}
		maps.Copy(field, change.more)
	}
	return nil
}

// ruleIDs are the IDs that a configuration may name.
func ruleIDs() (ids []any) {
	names := []string{rulebook.FieldDropped}
	for _, d := range validate.Rules() {
		names = append(names, d.ID)
	}
	for _, d := range mutate.Defaults() {
		names = append(names, d.ID)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		ids = append(ids, name)
	}
	return ids
}
