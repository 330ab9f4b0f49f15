package form

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AtMost reports a list of n items of which limit are allowed.
func AtMost(at *field.Path, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return field.ErrorList{field.TooMany(at, n, limit)}
}

// AtMostIn is atMost for a field. It makes the place only if there is something to say.
func AtMostIn(at *field.Path, name string, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return AtMost(at.Child(name), n, limit)
}

// Total reports that n things of a kind, counted over several fields below at, are
// more than limit; in the type and at the place where the API server reports it.
func Total(at *field.Path, things string, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("the total number of %s must not exceed %d", things, limit))}
}

// TooLong reports a text of n bytes of which limit are allowed.
func TooLong(at *field.Path, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	err := field.TooLong(at, "", limit)
	err.BadValue = n // not printed for this type; lets ratcheting see growth
	return field.ErrorList{err}
}
