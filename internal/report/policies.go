package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// Policies are those of a release, and what is known of them.
type Policies struct {
	// Mode is that of the ladder, Revision that of the policies.
	Mode     v1alpha1.Mode
	Revision string
	All      []Policy
	// Seen is what the replicas of the webhook have counted since they started.
	Seen Seen
	// Summary is what the leader of the controllers has written down about the replicas, empty for
	// nothing.
	Summary string
	// Events are those about the ConfigMaps with policies, in any order.
	Events []*corev1.Event
	// Notes list what is not known.
	Notes []string
}

// A Policy is one with the settings of the release.
type Policy struct {
	Code, Title, Severity string
	// Mode is in force in namespaces without settings of their own, Own is that of the policy.
	Mode, Own  policy.Mode
	Parameters []Parameter
	// Namespaces are settings for some namespaces.
	Namespaces []string
}

// A Parameter is a value in JSON. Set is true if the release sets it.
type Parameter struct {
	Name, Value string
	Set         bool
}

// NewPolicies joins the policies with a configuration.
func NewPolicies(options audit.Options) (p Policies, _ error) {
	c := options.Configuration
	p.Mode = c.Mode
	if p.Mode == "" {
		p.Mode = v1alpha1.ModeDefault
	}
	if options.Policies == nil {
		return p, nil
	}
	ladder, err := audit.NewLadder(options, []v1alpha1.Mode{p.Mode}, nil)
	if err != nil {
		return p, err
	}
	p.Revision = options.Policies.Revision()
	for _, m := range options.Policies.Policies() {
		one := Policy{Code: m.Code, Title: m.Title, Severity: m.Severity, Mode: ladder.Weigh(m.Code)[0], Own: m.Mode, Parameters: parametersOf(m.Parameters, c.Policies.Parameters[m.Code])}
		for _, n := range c.Policies.Namespaces {
			one.Namespaces = append(one.Namespaces, overrides(n, m.Code)...)
		}
		p.All = append(p.All, one)
	}
	return p, nil
}

// parametersOf are the values of the schema of a policy, and those that a release sets.
func parametersOf(schema map[string]any, set any) (all []Parameter) {
	values := map[string]Parameter{}
	properties, _ := schema["properties"].(map[string]any)
	for name, about := range properties {
		property, _ := about.(map[string]any)
		values[name] = Parameter{Name: name, Value: jsonOf(property["default"])}
	}
	given := map[string]any{}
	if data, err := json.Marshal(set); err == nil && json.Unmarshal(data, &given) == nil {
		for name, value := range given {
			values[name] = Parameter{name, jsonOf(value), true}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, values[name])
	}
	return all
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// overrides are what a setting for some namespaces says of a policy.
func overrides(n v1alpha1.PolicyNamespaces, code string) (all []string) {
	var parts []string
	if mode, has := n.Modes[code]; has {
		parts = append(parts, "mode "+string(mode))
	}
	for _, p := range parametersOf(nil, n.Parameters[code]) {
		parts = append(parts, p.Name+"="+p.Value)
	}
	if len(parts) == 0 {
		return nil
	}
	where := strings.Join(n.Names, ", ")
	if where == "" {
		where = "selected namespaces"
	}
	return []string{fmt.Sprintf("%s: %s", where, strings.Join(parts, ", "))}
}
