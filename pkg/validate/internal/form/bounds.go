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
	return tooLong(at, n, limit, fmt.Sprintf("is %d bytes", n))
}

// TooLongName reports a name that is too long and says which, because at can be the place of
// all names.
func TooLongName(at *field.Path, name string, limit int) field.ErrorList {
	return tooLong(at, len(name), limit, fmt.Sprintf("%s is %d bytes", Shorten(name, 2*shownEnd), len(name)))
}

// TooLongJSON reports a value of which the form that the API server stores is too long.
func TooLongJSON(at *field.Path, n, limit int) field.ErrorList {
	return tooLong(at, n, limit, fmt.Sprintf("is %d bytes as JSON", n))
}

// shownEnd is how many bytes of either end of a name that is too long a message shows.
const shownEnd = 20

func tooLong(at *field.Path, n, limit int, size string) field.ErrorList {
	if n <= limit {
		return nil
	}
	err := field.TooLong(at, "", limit)
	err.Detail = size + ", " + err.Detail
	err.BadValue = n // not printed for this type; lets ratcheting see growth
	return field.ErrorList{err}
}
