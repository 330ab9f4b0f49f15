package validate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// atMost reports a list of n items of which limit are allowed.
func atMost(at *field.Path, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return field.ErrorList{field.TooMany(at, n, limit)}
}

// atMostIn is atMost for a field. It makes the place only if there is something to say.
func atMostIn(at *field.Path, name string, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return atMost(at.Child(name), n, limit)
}

// total reports that n things of a kind, counted over several fields below at, are
// more than limit; in the type and at the place where the API server reports it.
func total(at *field.Path, things string, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("the total number of %s must not exceed %d", things, limit))}
}

// tooLong reports a text of n bytes of which limit are allowed.
func tooLong(at *field.Path, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	err := field.TooLong(at, "", limit)
	err.BadValue = n // not printed for this type; lets ratcheting see growth
	return field.ErrorList{err}
}
