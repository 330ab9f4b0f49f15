package review

import (
	"slices"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// preAdmission finds what only a mutating webhook sees, for it comes before the API server has
// looked: the fields that the server is about to drop in silence, so far as its version
// is known, and what would crash it. Whatever a driver publishes, that fields are dropped
// is only worth a warning.
func (k kindOf[T]) preAdmission(r Reviewer, answer *Answer, obj *T, req Request, old func() (*T, error), severities severities) error {
	answer.add(k.rules.PreAdmission(obj, validate.Conditions{Profile: r.Profile}), k.warnOnly, severities)
	if r.Profile.Minor == 0 || !k.drops.Threatens(obj, r.Profile) {
		return nil
	}
	obj, err := k.object(r, req) // once more, for what is dropped is taken out
	if err != nil {
		return err
	}
	own := Answer{}
	if err := k.drop(r, &own, obj, old, severities); err != nil {
		return err
	}
	for i := range own.Findings {
		if k.warnOnly != nil {
			own.Findings[i].Severity = max(own.Findings[i].Severity, validate.Warning)
		}
	}
	answer.Findings = slices.Concat(answer.Findings, own.Findings)
	return nil
}
