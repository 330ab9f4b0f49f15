package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Early returns what must be refused before the API server looks at obj, since it would
// crash. Only a mutating webhook comes that early.
func (t Table[T]) Early(obj T, c Conditions) (errs field.ErrorList) {
	for _, rule := range t {
		if rule.Early != nil {
			errs = append(errs, rule.Early(obj, c).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// crashingStep is what an API server before 1.37 divides by.
func crashingStep(d device, c Conditions) field.ErrorList {
	if !c.Profile.Enabled(DRAConsumableCapacity) {
		return nil // the API server drops the policy before it looks
	}
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		span := p.span()
		if span == nil || p.Default == nil || span.Min == nil || span.Step == nil || span.Step.Value() != 0 {
			return nil
		}
		return field.ErrorList{field.Invalid(at.Child("validRange", "step"), text(span.Step.DeepCopy()),
			"must be greater than zero, and fit into 64 bits; API servers crash on it")}
	})
}
