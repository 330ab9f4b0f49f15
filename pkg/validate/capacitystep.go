package validate

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func capacityStep(d device, c Conditions) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		span := p.span()
		if span == nil || p.Default == nil || span.Min == nil {
			return nil
		}
		r := steps{at.Child("validRange"), p.value, []namedQuantity{
			{"default", p.Default}, {"min", span.Min}, {"max", span.Max}, {"step", span.Step},
		}, c.Profile.Enabled(DRAFractionalCapacityRange)}
		if !c.Profile.Since(37) {
			return r.unguarded()
		}
		return r.guarded()
	})
}

// steps are the numbers of a range with a step.
type steps struct {
	at    *field.Path
	value resource.Quantity
	// numbers are the default, min, max and the step; the last two may be nil.
	numbers []namedQuantity
	// fractions says that the API server calculates with thousandths where it has to.
	fractions bool
}

type namedQuantity struct {
	name string
	*resource.Quantity
}

func (s steps) start() resource.Quantity { return *s.numbers[1].Quantity }
func (s steps) end() *resource.Quantity  { return s.numbers[2].Quantity }
func (s steps) step() *resource.Quantity { return s.numbers[3].Quantity }

// guarded is what the API server says since 1.37: it calculates only with numbers that
// 64 bits can hold.
func (s steps) guarded() field.ErrorList {
	thousandths := s.fractions && s.any(func(q resource.Quantity) bool { return !q.RoundUp(0) })
	if thousandths {
		if errs := s.unsuitable(unlessThousandths); len(errs) > 0 {
			return errs
		}
	}
	step := s.step()
	if step == nil {
		return nil
	}
	if step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(s.at.Child("step"), text(*step), "must be greater than zero")}
	}
	errs := s.tooLarge()
	if !thousandths {
		if unsuitable := s.unsuitable(unless64Bits); len(unsuitable) > 0 {
			return append(errs, unsuitable...)
		}
	}
	return append(errs, s.missed(func(q resource.Quantity) int64 {
		if thousandths {
			return q.MilliValue()
		}
		return q.Value()
	})...)
}

// unguarded is what it says before, or would say if it did not crash.
func (s steps) unguarded() field.ErrorList {
	if s.step() == nil {
		return nil
	}
	return append(s.tooLarge(), s.missed(func(q resource.Quantity) int64 { return q.Value() })...)
}

func (s steps) any(is func(resource.Quantity) bool) bool {
	for _, number := range s.numbers {
		if number.Quantity != nil && is(number.DeepCopy()) {
			return true
		}
	}
	return false
}

// unsuitable reports the numbers of which why says something.
func (s steps) unsuitable(why func(resource.Quantity) string) (errs field.ErrorList) {
	for _, number := range s.numbers {
		if number.Quantity == nil {
			continue
		}
		if message := why(number.DeepCopy()); message != "" {
			errs = append(errs, field.Invalid(s.at.Child(number.name), text(*number.Quantity), message))
		}
	}
	return errs
}

func unlessThousandths(q resource.Quantity) string {
	if compare(q, *resource.NewMilliQuantity(q.MilliValue(), q.Format)) == 0 {
		return ""
	}
	return "has more than thousandths, or is too large to be counted in them"
}

func unless64Bits(q resource.Quantity) string {
	switch {
	case q.Sign() < 0:
		return "must not be negative"
	case q.CmpInt64(math.MaxInt64) > 0:
		return "must not be larger than 9223372036854775807"
	default:
		return ""
	}
}

// tooLarge reports a first step that leads beyond the capacity.
func (s steps) tooLarge() field.ErrorList {
	sum := s.start().DeepCopy()
	sum.Add(*s.step())
	if compare(sum, s.value) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.at.Child("step"), text(*s.step()), "one step leads to "+text(sum)+", more than the capacity: "+text(s.value))}
}

// missed reports numbers that no step leads to.
func (s steps) missed(number func(resource.Quantity) int64) (errs field.ErrorList) {
	step, start := number(*s.step()), number(s.start())
	if step == 0 {
		return field.ErrorList{field.Invalid(s.at.Child("step"), text(*s.step()), "must be greater than zero, and fit into 64 bits; API servers crash on it")}
	}
	for _, end := range []*resource.Quantity{s.numbers[0].Quantity, s.end()} {
		if end != nil && (number(*end)-start)%step != 0 {
			errs = append(errs, field.Invalid(s.at.Child("step"), text(*s.step()), "does not lead from "+text(s.start())+" to "+text(*end)))
		}
	}
	return errs
}

// compare and text take copies: the methods of a Quantity change it.
func compare(a, b resource.Quantity) int { return a.Cmp(b) }

func text(q resource.Quantity) string { return q.String() }

// identity64 tells quantities apart as the API server does.
func identity64(q resource.Quantity, c Conditions) string {
	if c.Profile.Enabled(DRAFractionalCapacityRange) {
		return q.AsDec().String()
	}
	return strconv.FormatInt(q.Value(), 10)
}
