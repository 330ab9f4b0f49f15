package validate

import "strings"

// A Drop is a set of fields that an API server removes in silence while a feature
// gate is off, unless the stored object uses them already. It does so after mutating
// admission and before validation: what is dropped is never judged.
type Drop[T any] struct {
	// Gates have to be on for the fields to be kept.
	Gates []Gate
	// Known is the first minor with the fields; an older API server does not read them
	// at all, whatever is stored. From and To are the first and the last minor that
	// remove them. 0 sets no bound.
	Known, From, To int
	// Fields are the paths of the fields, with [] for any item.
	Fields []string
	// Uses tells whether obj uses one of the fields.
	Uses func(obj T) bool
	// Keeps tells whether old uses the feature already, so that nothing is removed. Nil
	// stands for Uses.
	Keeps func(old T) bool
	// Remove takes the fields out of obj.
	Remove func(obj T)
}

// Drops lists the fields of a kind that depend on feature gates.
type Drops[T any] []Drop[T]

// Apply removes from obj what the API server of profile does not keep, and returns
// a sentence for every set of fields that obj loses. old is what is stored, the zero
// value on creation; isUpdate tells the difference.
func (d Drops[T]) Apply(old, obj T, isUpdate bool, profile Profile) (lost []string) {
	for _, drop := range d {
		why := drop.why(profile)
		if why == "" || !drop.in(profile) || isUpdate && drop.keeps(old, profile) || !drop.Uses(obj) {
			continue
		}
		drop.Remove(obj)
		lost = append(lost, strings.Join(drop.Fields, ", ")+" are dropped "+why)
	}
	return lost
}

// Unknown lists the fields that an API server of the profile's minor does not know.
func (d Drops[T]) Unknown(profile Profile) (fields []string) {
	for _, drop := range d {
		if !profile.Since(drop.Known) {
			fields = append(fields, drop.Fields...)
		}
	}
	return fields
}

// Threatens tells whether an API server of profile removes fields that obj uses, unless
// the stored object uses them too.
func (d Drops[T]) Threatens(obj T, profile Profile) bool {
	for _, drop := range d {
		if drop.why(profile) != "" && drop.in(profile) && drop.Uses(obj) {
			return true
		}
	}
	return false
}

// in tells whether an API server of the profile's minor removes the fields.
func (d Drop[T]) in(profile Profile) bool {
	return profile.Since(d.From) && (d.To == 0 || !profile.Since(d.To+1))
}

func (d Drop[T]) keeps(old T, profile Profile) bool {
	if !profile.Since(d.Known) {
		return false
	}
	if d.Keeps != nil {
		return d.Keeps(old)
	}
	return d.Uses(old)
}

// why says for which reason an API server of the profile removes the fields; empty if
// it keeps them.
func (d Drop[T]) why(profile Profile) string {
	var missing []Gate
	for _, gate := range d.Gates {
		if !profile.Enabled(gate) {
			missing = append(missing, gate)
		}
	}
	switch {
	case len(missing) > 0:
		return "without the feature gate " + join(missing)
	case !profile.Since(d.Known):
		return "by an API server that does not know them"
	default:
		return ""
	}
}
