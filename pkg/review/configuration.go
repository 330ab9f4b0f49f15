package review

import (
	"errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// New makes a Reviewer that judges as c says. It refuses values out of range, all
// of them in one error.
func New(c v1alpha1.StewardConfiguration) (Reviewer, error) {
	severities, err := siteSeverities(c.Rules)
	exemptions, wrong := siteExemptions(c)
	r := Reviewer{
		Limits: validate.Limits(c.Limits), Defaults: mutate.Settings(c.Defaults),
		severities: severities, exemptions: exemptions, expressions: &validate.Expressions{},
	}
	return r, errors.Join(r.Limits.Validate(), r.Defaults.Validate(), err, wrong)
}
