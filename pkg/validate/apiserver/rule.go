package apiserver

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// A Rule is one thing that an API server demands of an object of type T.
type Rule[T any] struct {
	// ID names the rule for good: in messages, metrics, documentation and
	// exemptions. Lower case, words joined by hyphens.
	ID string
	// Doc explains the rule. Its first line is a sentence by itself; after an
	// empty line follows why the rule exists.
	Doc string
	// Upstream is how the supported versions of the API server differ.
	Upstream string
	// Source names where the rule comes from: a KEP section, a constant of
	// k8s.io/api/resource/v1, an upstream function.
	Source string
	// Check returns what is wrong with a new object. It does not change obj. Nil in a
	// rule about the change of an object.
	Check func(obj T, c Pass) field.ErrorList
	// Update returns the API server's errors for an update, where they differ from Check of
	// the new object: it skips what has not changed, or forbids a change. Nil means Check.
	Update func(old, obj T, c Pass) field.ErrorList

	// preAdmission is the part of Check for objects that would crash the API server.
	preAdmission func(obj T, c Pass) field.ErrorList
}

// PreAdmission returns what must be refused before the API server validates obj, because
// it would crash.
func (r Rule[T]) PreAdmission(obj T, c Conditions) field.ErrorList {
	if r.preAdmission == nil {
		return nil
	}
	return r.preAdmission(obj, NewPass(c))
}

// Conditions are what the verdict of an API server depends on in addition to the object. The
// zero value is a default API server of the newest minor.
type Conditions struct {
	// Profile is the API server.
	Profile Profile
	// Expressions caches compiled expressions; nil compiles them for every object.
	Expressions *Expressions

	// stored is true if an API server has accepted selectors and configurations before.
	stored bool
}

// A Pass is one check of one object by the rules of a table: what one rule walks is not
// computed again for the next.
type Pass struct {
	Conditions
	// server is the API server's way of reading the object.
	server walk.Server
}

// NewPass begins the check of an object.
func NewPass(c Conditions) Pass {
	return Pass{Conditions: c, server: walk.Server{Minor: c.Profile.EffectiveMinor()}.Remembering()}
}

// A Table is the list of rules of one kind.
type Table[T any] []Rule[T]

// Validate returns the API server's errors for the creation of obj. The origin of every
// error is the ID of the rule that found it.
func (t Table[T]) Validate(obj T, c Conditions) (errs field.ErrorList) {
	p := NewPass(c)
	for _, rule := range t {
		if rule.Check != nil {
			errs = append(errs, rule.Check(obj, p).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// ValidateUpdate returns the API server's errors for the update of old to obj. It tolerates
// only what the API server tolerates.
func (t Table[T]) ValidateUpdate(old, obj T, c Conditions) (errs field.ErrorList) {
	p := NewPass(c)
	for _, rule := range t {
		if rule.Update != nil {
			errs = append(errs, rule.Update(old, obj, p).WithOrigin(rule.ID)...)
		} else {
			errs = append(errs, rule.Check(obj, p).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// lift turns the rules of a part into rules of the whole that contains it.
func lift[Whole, Part any](part func(Whole) Part, rules Table[Part]) Table[Whole] {
	lifted := make(Table[Whole], len(rules))
	for i, rule := range rules {
		lifted[i] = described[Whole](rule)
		if check := rule.Check; check != nil {
			lifted[i].Check = func(obj Whole, c Pass) field.ErrorList { return check(part(obj), c) }
		}
		if check := rule.preAdmission; check != nil {
			lifted[i].preAdmission = func(obj Whole, c Pass) field.ErrorList { return check(part(obj), c) }
		}
		if update := rule.Update; update != nil {
			lifted[i].Update = func(old, obj Whole, c Pass) field.ErrorList {
				return update(part(old), part(obj), c)
			}
		}
	}
	return lifted
}

// liftFor is lift for a part that depends on the API server.
func liftFor[Whole, Part any](part func(Whole, walk.Server) Part, rules Table[Part]) Table[Whole] {
	lifted := make(Table[Whole], len(rules))
	for i, rule := range rules {
		lifted[i] = described[Whole](rule)
		if check := rule.Check; check != nil {
			lifted[i].Check = func(obj Whole, c Pass) field.ErrorList { return check(part(obj, c.server), c) }
		}
		if check := rule.preAdmission; check != nil {
			lifted[i].preAdmission = func(obj Whole, c Pass) field.ErrorList { return check(part(obj, c.server), c) }
		}
		if update := rule.Update; update != nil {
			lifted[i].Update = func(old, obj Whole, c Pass) field.ErrorList {
				return update(part(old, c.server), part(obj, c.server), c)
			}
		}
	}
	return lifted
}

// described is rule without its checks.
func described[Whole, Part any](rule Rule[Part]) Rule[Whole] {
	return Rule[Whole]{ID: rule.ID, Doc: rule.Doc, Upstream: rule.Upstream, Source: rule.Source}
}
