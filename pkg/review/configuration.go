package review

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/internal/rules/mode"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// New makes a Reviewer for a configuration. It refuses values out of range, all
// of them in one error; each that is about a field of c is a [k8s.io/apimachinery/pkg/util/validation/field.Error].
func New(c v1alpha1.StewardConfiguration) (Reviewer, error) {
	severities, wrongRules := siteSeverities(c.Mode, c.Rules)
	exemptions, wrongExemptions := siteExemptions(c)
	schemas, wrongSchemas := parameters.Site(c)
	publishers, wrongDrivers := sitePublishers(c.Drivers)
	profile, wrongServer := serverProfile(c.Server)
	wrongLabels := checkProtectedLabels(c.ProtectedLabels)
	_, wrongGuard := GuardSettings(c)
	wrongPods := checkDriverPods(c.DriverPods)
	r := Reviewer{
		Limits: validate.Limits(c.Limits), Defaults: mutate.Settings(c.Defaults), Profile: profile, Parameters: schemas,
		severities: severities, exemptions: exemptions, publishers: publishers, forceDeleters: validate.Deleters(c.ForceDeletion), driverPods: c.DriverPods, protected: c.ProtectedLabels, onPolicyError: c.Policies.OnError, guarding: newGuarding(c), expressions: &validate.Expressions{},
		observes: c.Mode == v1alpha1.ModeObserve, unreadable: unreadable(c.Mode),
	}
	return r, errors.Join(mode.Check(c.Mode), r.Limits.Validate(), r.Defaults.Validate(), wrongRules, wrongExemptions, wrongServer, wrongSchemas, wrongDrivers, wrongGuard, wrongLabels, wrongPods)
}

// unreadable is what a request weighs that cannot be read: it is refused where anything is.
func unreadable(m v1alpha1.Mode) validate.Severity {
	switch m {
	case v1alpha1.ModeObserve:
		return validate.Audit
	case v1alpha1.ModeWarn:
		return validate.Warning
	}
	return validate.Error
}

// Unreadable returns what a request weighs for which there is an error instead of an answer.
func (r Reviewer) Unreadable() validate.Severity { return r.unreadable }

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
			errs = append(errs, field.NotSupported(at.Child("severity"), rules[id].Severity, severityNames()))
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

// severityNames are what validate.ParseSeverity reads.
func severityNames() (names []string) {
	for s := validate.Error; s <= validate.Off; s++ {
		names = append(names, s.String())
	}
	return names
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

// parameters are those of the Reviewer.
func (r Reviewer) parameters() (validate.Parameters, error) {
	if r.Parameters != nil {
		return r.Parameters, nil
	}
	return parameters.Default()
}

// serverProfile is the API server that a site describes. Its Minor is 0 if the site
// leaves that to be asked for.
func serverProfile(s v1alpha1.Server) (apiserver.Profile, error) {
	at := field.NewPath("server")
	p := apiserver.Profile{Gates: map[apiserver.Gate]bool{}}
	for gate, on := range s.FeatureGates {
		p.Gates[apiserver.Gate(gate)] = on
	}
	if s.KubernetesVersion != "" {
		v, err := version.ParseGeneric(s.KubernetesVersion)
		if err != nil || v.Major() != 1 {
			return p, field.Invalid(at.Child("kubernetesVersion"), s.KubernetesVersion, `must be a version such as "1.37"`)
		}
		p.Minor = int(v.Minor())
	}
	if err := p.Validate(); err != nil {
		return p, field.Invalid(at, s.KubernetesVersion, err.Error())
	}
	return p, nil
}

// sitePublishers refuses drivers without users and groups that publish.
func sitePublishers(drivers map[string]v1alpha1.Driver) (map[string]validate.Publishers, error) {
	publishers := map[string]validate.Publishers{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		publishers[name] = validate.Publishers(drivers[name])
		if len(drivers[name].Users)+len(drivers[name].Groups) == 0 {
			errs = append(errs, field.Required(field.NewPath("drivers").Key(name), "name users or groups, or leave the driver out"))
		}
	}
	return publishers, errors.Join(errs...)
}
