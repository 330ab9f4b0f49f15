package review

import (
	"errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// New makes a Reviewer for a configuration. It refuses values out of range, all
// of them in one error; each that is about a field of c is a [k8s.io/apimachinery/pkg/util/validation/field.Error].
func New(c v1alpha1.StewardConfiguration) (Reviewer, error) {
	severities, wrongRules := siteSeverities(c.Mode, c.Rules)
	exemptions, wrongExemptions := siteExemptions(c)
	parameters, wrongSchemas := Parameters(c)
	publishers, wrongDrivers := sitePublishers(c.Drivers)
	profile, wrongServer := serverProfile(c.Server)
	wrongLabels := checkProtectedLabels(c.ProtectedLabels)
	_, wrongGuard := GuardSettings(c)
	r := Reviewer{
		Limits: validate.Limits(c.Limits), Defaults: mutate.Settings(c.Defaults), Profile: profile, Parameters: parameters,
		severities: severities, exemptions: exemptions, publishers: publishers, forceDeleters: validate.Deleters(c.ForceDeletion), protected: c.ProtectedLabels, onPolicyError: c.Policies.OnError, guarding: newGuarding(c), expressions: &validate.Expressions{},
		observes: c.Mode == v1alpha1.ModeObserve,
	}
	return r, errors.Join(CheckMode(c.Mode), r.Limits.Validate(), r.Defaults.Validate(), wrongRules, wrongExemptions, wrongServer, wrongSchemas, wrongDrivers, wrongGuard, wrongLabels)
}
