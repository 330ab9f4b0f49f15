package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Class says who else enforces a rule, and by that where it has to run.
type Class string

const (
	// Limit rules bound a size that the API server bounds too, but only with its
	// own number; a site may choose a lower one. They run everywhere.
	Limit Class = "limit"
	// Gap rules say what no API server says. They run everywhere.
	Gap Class = "gap"
	// Mirror rules repeat the API server. They run where no server is: offline.
	Mirror Class = "mirror"
)

// A Rule is one thing that an object of type T has to fulfil.
type Rule[T any] struct {
	// ID names the rule for good: in messages, metrics, documentation and
	// exemptions. Lower case, words joined by hyphens.
	ID string
	// Doc explains the rule. Its first line is a sentence by itself; after an
	// empty line follows why the rule exists.
	Doc string
	// Class says where the rule runs.
	Class Class
	// Severity says what a finding means for a write unless the site decides
	// otherwise. Doc says why a rule only warns.
	Severity Severity
	// Beyond says that the rule looks at more than the object: at the World of its
	// Conditions, which is hidden from all others. Such a rule never denies a
	// ResourceSlice, whatever its severity: pools are published slice by slice.
	Beyond bool
	// Server says what the API server does about it, and since which version.
	Server string
	// Source names where the rule comes from: a KEP section, a constant of
	// k8s.io/api/resource/v1, an upstream function.
	Source string
	// Check returns what is wrong with obj. It must not change obj. An error
	// that counts something carries the count as an int BadValue, by which
	// ratcheting sees whether the problem has grown. A rule about the change of an
	// object has Update alone.
	Check func(obj T, c Conditions) field.ErrorList
	// Update is what the API server says of an update, for the rules where that is
	// something else than Check of the new object: it skips what has not changed,
	// or forbids a change. Nil stands for Check.
	Update func(old, obj T, c Conditions) field.ErrorList
	// Early is the part of Check that the API server must not get to see: it would
	// crash. Nil is no part.
	Early func(obj T, c Conditions) field.ErrorList
}

// A Table is the list of rules of one kind.
type Table[T any] []Rule[T]

// Validate returns what is wrong with obj. The origin of every error is the ID of
// the rule that found it.
func (t Table[T]) Validate(obj T, c Conditions) field.ErrorList {
	c.Limits, c.walks = c.Limits.For(c.Profile), &walks{}
	var errs field.ErrorList
	for _, rule := range t {
		if rule.Check != nil {
			errs = append(errs, rule.Check(obj, rule.sees(c)).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// sees hides from a rule what it does not say that it looks at.
func (r Rule[T]) sees(c Conditions) Conditions {
	if !r.Beyond {
		c.World = nil
	}
	return c
}

// ValidateUpdate returns what is wrong with obj and divides it by old: errs is new
// or has grown since old, or is the change itself; tolerated was there already and is
// no worse now.
func (t Table[T]) ValidateUpdate(old, obj T, c Conditions) (errs, tolerated field.ErrorList) {
	if found := t.Validate(obj, c); len(found) > 0 {
		errs, tolerated = ratchet(t.Validate(old, c.before()), found)
	}
	for _, rule := range t {
		if rule.Check == nil {
			errs = append(errs, rule.Update(old, obj, rule.sees(c)).WithOrigin(rule.ID)...)
		}
	}
	return errs, tolerated
}

// ServerUpdate returns what the API server says of the update of old to obj. It
// knows no tolerance but its own.
func (t Table[T]) ServerUpdate(old, obj T, c Conditions) field.ErrorList {
	c.Limits, c.walks = c.Limits.For(c.Profile), &walks{}
	var errs field.ErrorList
	for _, rule := range t {
		if rule.Update != nil {
			errs = append(errs, rule.Update(old, obj, c).WithOrigin(rule.ID)...)
		} else {
			errs = append(errs, rule.Check(obj, c).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// InCluster returns the rules that say more than the API server does. Behind an
// API server the others could only repeat what it has answered already.
func (t Table[T]) InCluster() Table[T] {
	return t.only(func(class Class) bool { return class != Mirror })
}

// Server returns the rules that the API server has too.
func (t Table[T]) Server() Table[T] {
	return t.only(func(class Class) bool { return class != Gap })
}

func (t Table[T]) only(keep func(Class) bool) Table[T] {
	var rules Table[T]
	for _, rule := range t {
		if keep(rule.Class) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// lift turns the rules of a part into rules of the whole that contains it.
func lift[Whole, Part any](part func(Whole) Part, rules Table[Part]) Table[Whole] {
	lifted := make(Table[Whole], len(rules))
	for i, rule := range rules {
		lifted[i] = Rule[Whole]{
			ID: rule.ID, Doc: rule.Doc, Class: rule.Class, Severity: rule.Severity,
			Beyond: rule.Beyond, Server: rule.Server, Source: rule.Source,
		}
		if rule.Check != nil {
			lifted[i].Check = func(obj Whole, c Conditions) field.ErrorList { return rule.Check(part(obj), c) }
		}
		if rule.Update != nil {
			lifted[i].Update = func(old, obj Whole, c Conditions) field.ErrorList {
				return rule.Update(part(old), part(obj), c)
			}
		}
	}
	return lifted
}
