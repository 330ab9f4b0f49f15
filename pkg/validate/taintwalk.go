package validate

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A taintPart is where taints stand: a slice, or a rule.
type taintPart struct {
	slice *resourceapi.ResourceSlice
	rule  *resourceapi.DeviceTaintRule
}

func slicePart(slice *resourceapi.ResourceSlice) taintPart { return taintPart{slice: slice} }

func rulePart(rule *resourceapi.DeviceTaintRule) taintPart { return taintPart{rule: rule} }

// A taint is a taint that the API server looks at.
type taint struct {
	*resourceapi.DeviceTaint
	// list is where the list stands in which it has an index, or -1 for the taint of a rule.
	list  *field.Path
	index int
	// onlyDeclared says that only its declarative validation does, which knows the
	// effect alone.
	onlyDeclared bool
	// sameEffect says that the effect is the stored one and not looked at again.
	sameEffect bool
}

// at is the path of a field of the taint.
func (t taint) at(name string) *field.Path {
	if t.index < 0 {
		return t.list.Child(name)
	}
	return t.list.Index(t.index).Child(name)
}

// walk yields the taints that the API server of the profile looks at; old is zero on
// creation.
func (p taintPart) walk(old taintPart, c Conditions) iter.Seq[taint] {
	return func(yield func(taint) bool) {
		if p.rule != nil {
			same := old.rule != nil && c.Profile.Since(35) && old.rule.Spec.Taint.Effect == p.rule.Spec.Taint.Effect
			yield(taint{&p.rule.Spec.Taint, ruleTaintPath, -1, false, same})
			return
		}
		for d := range walkDevices(old.slice, p.slice, c) {
			if len(d.Taints) == 0 {
				continue
			}
			onlyDeclared := d.passedOver || c.Profile.Since(35) && len(d.Taints) > resourceapi.DeviceTaintsMaxLength || d.sameTaints()
			if onlyDeclared && !d.declared() {
				continue
			}
			list := d.at("taints")
			for i := range d.Taints {
				if !yield(taint{&d.Taints[i], list, i, onlyDeclared, false}) {
					return
				}
			}
		}
	}
}

// eachTaint makes a check of all taints of one of a single taint.
func eachTaint(check func(taint, Conditions) field.ErrorList) func(taintPart, Conditions) field.ErrorList {
	update := eachTaintUpdate(check)
	return func(part taintPart, c Conditions) field.ErrorList { return update(taintPart{}, part, c) }
}

func eachTaintUpdate(check func(taint, Conditions) field.ErrorList) func(old, part taintPart, c Conditions) field.ErrorList {
	return func(old, part taintPart, c Conditions) (errs field.ErrorList) {
		for t := range part.walk(old, c) {
			errs = append(errs, check(t, c)...)
		}
		return errs
	}
}
