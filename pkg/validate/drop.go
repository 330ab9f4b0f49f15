package validate

import "strings"

// A Drop is a set of fields that an API server removes in silence while a feature
// gate is off, unless the stored object uses them already. It does so after mutating
// admission and before validation: what is dropped is never judged.
type Drop[T any] struct {
	// Gates have to be on for the fields to be kept.
	Gates []Gate
	// Fields are the paths of the fields, with [] for any item.
	Fields []string
	// Uses tells whether obj uses one of the fields.
	Uses func(obj T) bool
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
		missing := drop.missing(profile)
		if len(missing) == 0 || isUpdate && drop.Uses(old) || !drop.Uses(obj) {
			continue
		}
		drop.Remove(obj)
		lost = append(lost, strings.Join(drop.Fields, ", ")+" are dropped without the feature gate "+join(missing))
	}
	return lost
}

func (d Drop[T]) missing(profile Profile) (missing []Gate) {
	for _, gate := range d.Gates {
		if !profile.Enabled(gate) {
			missing = append(missing, gate)
		}
	}
	return missing
}
