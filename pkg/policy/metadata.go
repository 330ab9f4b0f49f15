package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/parameters/schemaregexp"
)

// Mode is the effect of the violations that a policy reports.
type Mode string

// The modes, from the weakest on.
const (
	Off   Mode = "off"   // not evaluated
	Audit Mode = "audit" // counted, and noted in the API server's audit log
	Warn  Mode = "warn"  // the author sees a warning
	Deny  Mode = "deny"  // the write is refused
)

// Modes are all modes, from the weakest on.
func Modes() []Mode { return []Mode{Off, Audit, Warn, Deny} }

// rank orders modes by their strength.
func rank(m Mode) int { return slices.Index(Modes(), m) }

func weaker(a, b Mode) Mode {
	if rank(a) < rank(b) {
		return a
	}
	return b
}

// The values of [Metadata].About: a policy checks the object or its author.
const (
	// aboutObject: the policy checks the object, for all authors alike.
	aboutObject = "object"
	// aboutUser: the policy checks the author. A claim from a template was checked when
	// its author wrote the template.
	aboutUser = "user"
)

// The parts of the input that a policy can need. It is not evaluated for a write that
// has nothing there.
const (
	needsRequests    = "requests"
	needsTolerations = "tolerations"
	needsConfigs     = "configs"
	needsTaintRule   = "taintRule"
	needsClass       = "class"
	needsSlice       = "slice"
	NeedsImpact      = "impact"
)

// parts are what Needs can name, in the order of the bits of a group.
func parts() []string {
	return []string{needsRequests, needsTolerations, needsConfigs, needsTaintRule, needsClass, needsSlice, NeedsImpact}
}

// allKinds are the kinds of objects that policies can apply to.
func allKinds() []string {
	return []string{"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule", v1alpha1.DeviceDrainKind, v1alpha1.DeviceReactionKind, v1alpha1.DeviceRollKind}
}

// Metadata is the METADATA of a policy's package.
type Metadata struct {
	// Code identifies the policy, such as DRA-TOL-001.
	Code        string
	Title       string
	Description string
	// Severity is low, medium, high or critical.
	Severity string
	// Mode is the mode if the site sets none.
	Mode Mode
	// About is what it checks: "object", or "user" for the author.
	About string
	// Kinds are the kinds of objects that it applies to.
	Kinds []string
	// Needs are the parts of the input without which it is not evaluated; one that is
	// there is enough.
	Needs []string
	// Replaces are the rules of pkg/validate that say the same with less: where the
	// policy is in force for a kind, they are left out.
	Replaces []string
	// Parameters is the JSON schema of its parameters; nil if it has none.
	Parameters map[string]any

	schema *jsonschema.Schema // of Parameters
	// strongest is the strongest mode that the overall mode of a site gives it; empty is any.
	strongest Mode
	// Related are addresses with more about the problem.
	Related []string
	// Package is its path without "data.", File the file that contains it.
	Package string
	File    string
}

// custom is the part of the METADATA that is ours.
type custom struct {
	Code       string         `json:"code"`
	Severity   string         `json:"severity"`
	Mode       Mode           `json:"mode"`
	Strongest  Mode           `json:"strongest"`
	About      string         `json:"about"`
	Kinds      []string       `json:"kinds"`
	Needs      []string       `json:"needs"`
	Replaces   []string       `json:"replaces"`
	Parameters map[string]any `json:"parameters"`
}

// metadata reads the METADATA of a module; nil for a module without a code, which is
// a library.
func metadata(file string, module *ast.Module) (*Metadata, error) {
	path := strings.TrimPrefix(module.Package.Path.String(), "data.")
	for _, annotations := range module.Annotations {
		if annotations.Scope != "package" {
			continue
		}
		m := Metadata{Title: annotations.Title, Description: annotations.Description, Package: path, File: file}
		for _, related := range annotations.RelatedResources {
			m.Related = append(m.Related, related.Ref.String())
		}
		if err := m.read(annotations.Custom); err != nil {
			return nil, at(annotations.Location, "METADATA of package %s: %w", path, err)
		}
		return &m, nil
	}
	if isLibrary(path) {
		return nil, nil
	}
	return nil, at(module.Package.Loc(), "package %s has no METADATA: a policy needs a title, a description and custom.code; modules without a code belong in dra.lib", path)
}

// isLibrary reports whether other modules import the package, so that it is not a policy.
func isLibrary(path string) bool { return path == "dra.lib" || strings.HasPrefix(path, "dra.lib.") }

func (m *Metadata) read(values map[string]any) error {
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	var c custom
	if err := decoder.Decode(&c); err != nil {
		return fmt.Errorf("custom: %w", err)
	}
	m.Code, m.Severity, m.Mode, m.About, m.Kinds, m.Needs, m.Replaces, m.Parameters = c.Code, c.Severity, c.Mode, c.About, c.Kinds, c.Needs, c.Replaces, c.Parameters
	m.strongest = c.Strongest
	return errors.Join(m.check(), m.compileParameters())
}

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$`)

func (m *Metadata) check() error {
	var errs []error
	if m.Title == "" || strings.Contains(m.Title, "\n") {
		errs = append(errs, errors.New("title: must be one line that names the problem"))
	}
	if m.Description == "" {
		errs = append(errs, errors.New("description: must describe what goes wrong without the policy"))
	}
	if !codePattern.MatchString(m.Code) || len(m.Code) > 63 {
		errs = append(errs, fmt.Errorf("custom.code %q: must be like DRA-TOL-001, at most 63 characters", m.Code))
	}
	if !strings.HasPrefix(m.Package, "dra.") || strings.Count(m.Package, ".") < 2 {
		errs = append(errs, errors.New("the package must be dra.<area>.<name>, dra.custom.<name> for policies of a site"))
	}
	errs = append(errs, oneOf("custom.severity", []string{m.Severity}, []string{"low", "medium", "high", "critical"}),
		oneOf("custom.mode", []Mode{m.Mode}, Modes()),
		oneOf("custom.about", []string{m.About}, []string{aboutObject, aboutUser}),
		oneOf("custom.kinds", m.Kinds, allKinds()),
		oneOf("custom.needs", m.Needs, parts()))
	if m.strongest != "" && (rank(m.strongest) < 0 || rank(m.strongest) < rank(m.Mode)) {
		errs = append(errs, fmt.Errorf("custom.strongest %q: must be one of %v, and at least custom.mode", m.strongest, Modes()))
	}
	return errors.Join(errs...)
}

// raised is the mode that the overall mode of a site gives to the policy.
func (m Metadata) raised(own func(Mode) Mode) Mode {
	mode := own(m.Mode)
	if m.strongest == "" {
		return mode
	}
	return weaker(mode, m.strongest)
}

// oneOf checks that there are values and that each is among the allowed ones.
func oneOf[T ~string](field string, values, allowed []T) error {
	if len(values) == 0 {
		return fmt.Errorf("%s: is missing; allowed are %v", field, allowed)
	}
	for _, value := range values {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("%s %q: must be one of %v", field, value, allowed)
		}
	}
	return nil
}

// parameterDefaults returns the default parameters of every policy. It refuses invalid
// schemas, and defaults that they do not allow.
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
		if err := policy.checkParameters(values); err != nil {
			errs = append(errs, fmt.Errorf("%s: the defaults of the parameters: %w", policy.File, err))
		}
	}
	return defaults, errors.Join(errs...)
}

// checkParameters returns an error if the policy's schema does not allow the parameters.
func (m Metadata) checkParameters(values map[string]any) error {
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
	compiler.UseRegexpEngine(schemaregexp.Compile)
	if err := compiler.AddResource(m.Code+".json", document); err != nil {
		return err
	}
	m.schema, err = compiler.Compile(m.Code + ".json")
	return err
}

// noLoader keeps a schema from reading files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema of parameters cannot refer to another file", url)
}

// Markdown is the documentation of all policies.
func (s *Set) Markdown() string {
	var page strings.Builder
	page.WriteString("# Policies\n\nGenerated by `dra-steward policy docs`. [policy-authoring.md](policy-authoring.md) describes how to\nwrite one. A site changes modes and parameters in `policies` of its configuration.\n\n| code | mode | severity | problem |\n| --- | --- | --- | --- |\n")
	for _, p := range s.policies {
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s | %s |\n", p.Code, strings.ToLower(p.Code), p.Mode, p.Severity, p.Title)
	}
	for _, p := range s.policies {
		page.WriteString("\n" + p.Markdown())
	}
	return page.String()
}

// Markdown is the documentation of the policy.
func (m Metadata) Markdown() string {
	var page strings.Builder
	mode := fmt.Sprintf("Mode `%s`", m.Mode)
	if m.strongest != "" {
		mode += fmt.Sprintf(" (no overall mode sets more than `%s`)", m.strongest)
	}
	fmt.Fprintf(&page, "## %s\n\n%s.\n\n%s\n\n%s, severity %s, about the %s. Applies to %s.\n",
		m.Code, m.Title, strings.TrimSpace(m.Description), mode, m.Severity, m.About, strings.Join(m.Kinds, ", "))
	fields, _ := m.Parameters["properties"].(map[string]any)
	if len(fields) > 0 {
		page.WriteString("\n| parameter | default | |\n| --- | --- | --- |\n")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, _ := fields[name].(map[string]any)
		value, err := json.Marshal(field["default"])
		if err != nil {
			value = []byte("?")
		}
		description, _ := field["description"].(string)
		fmt.Fprintf(&page, "| `%s` | `%s` | %s |\n", name, value, strings.Join(strings.Fields(description), " "))
	}
	for _, address := range m.Related {
		fmt.Fprintf(&page, "\n<%s>\n", address)
	}
	return page.String()
}
