package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/rulebook"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// ownCode matches the code of a policy that is not in the library: one that does not begin with
// DRA-.
const ownCode = "^([A-CE-Z][A-Z0-9]*|D|D[A-QS-Z0-9][A-Z0-9]*|DR|DR[B-Z0-9][A-Z0-9]*|DRA[A-Z0-9]+)(-[A-Z0-9]+)+$"

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
	for path, names := range map[string][]string{
		"policies.modes": {anyOf(codes), ownCode}, "policies.namespaces.modes": {anyOf(codes), ownCode},
		"policies.parameters": {ownCode}, "policies.namespaces.parameters": {ownCode}, "rules": {anyOf(ruleIDs())},
	} {
		field, err := lookUp(configuration, path)
		if err != nil {
			return err
		}
		restrict(field, names)
		if strings.HasSuffix(path, ".parameters") {
			field["properties"] = parameters
		}
	}
	exempt, err := lookUp(configuration, "exemptions.rules")
	if err != nil {
		return err
	}
	exempt["items"] = object{"type": "string", "anyOf": []any{object{"enum": []any{"*"}}, object{"enum": ruleIDs()}, object{"enum": codes}, object{"pattern": ownCode}}}
	return nil
}

// restrict lets a map have keys of these patterns only. With propertyNames, the library of Helm
// reports a wrong key at the place of another value.
func restrict(field object, patterns []string) {
	values := object{}
	for _, pattern := range patterns {
		values[pattern] = field["additionalProperties"]
	}
	field["patternProperties"], field["additionalProperties"] = values, false
}

// anyOf is a pattern that matches the names and nothing else.
func anyOf(names []any) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(fmt.Sprint(name))
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
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
