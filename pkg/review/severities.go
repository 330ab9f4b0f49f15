package review

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/ruleid"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// severities are those of rules that differ from Error, by ID.
type severities map[string]validate.Severity

// of returns the severity of a rule or default.
func (s severities) of(id string) validate.Severity { return s[id] }

// ownSeverities are for a Reviewer that no configuration was given to.
var ownSeverities = defaultSeverities()

// validate.Severity returns that of a rule or default, in the configuration.
func (r Reviewer) Severity(id string) validate.Severity {
	if r.severities == nil {
		return ownSeverities.of(id)
	}
	return r.severities.of(id)
}

// defaultSeverities are those that the rules have by themselves.
func defaultSeverities() severities {
	all := severities{ruleid.FieldDropped: validate.Warning}
	for _, rule := range validate.Rules() {
		if rule.Severity != validate.Error {
			all[rule.ID] = rule.Severity
		}
	}
	return all
}

// siteSeverities are the rules' own in a mode, with those of a configuration. An unknown rule or
// severity is an error; all of them in one.
func siteSeverities(mode v1alpha1.Mode, rules map[string]v1alpha1.Rule) (severities, error) {
	all := defaultSeverities().inMode(mode)
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		severity, err := validate.ParseSeverity(string(rules[id].Severity))
		at := field.NewPath("rules").Key(id)
		switch {
		case !known(id):
			errs = append(errs, field.Invalid(at, id, noSuchRule(id)))
		case err != nil:
			errs = append(errs, field.NotSupported(at.Child("severity"), rules[id].Severity, validate.SeverityNames()))
		case severity == validate.Error && slices.ContainsFunc(validate.Rules(), func(d validate.Description) bool {
			return d.ID == id && d.CrossObject && slices.Equal(d.Kinds, []string{"ResourceSlice"})
		}):
			errs = append(errs, field.Forbidden(at.Child("severity"), "the rule checks other slices of the pool, and never denies: choose warning, audit or off"))
		default:
			all[id] = severity
		}
	}
	return all, errors.Join(errs...)
}

// noSuchRule says that no rule and no default has the ID, with the nearest one that there is.
func noSuchRule(id string) string {
	var ids []string
	for _, d := range validate.Rules() {
		ids = append(ids, d.ID)
	}
	for _, d := range mutate.Defaults() {
		ids = append(ids, d.ID)
	}
	if near := manifest.Nearest(id, ids); near != "" {
		return fmt.Sprintf("there is no such rule; did you mean %q?", near)
	}
	return `there is no such rule; "dra-steward explain" lists all`
}

func known(id string) bool {
	return id == ruleid.FieldDropped || slices.ContainsFunc(validate.Rules(), func(d validate.Description) bool { return d.ID == id }) ||
		slices.ContainsFunc(mutate.Defaults(), func(d mutate.Description) bool { return d.ID == id })
}
