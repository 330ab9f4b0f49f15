package mutate

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Write is the creation or update of an object of type T.
type Write[T any] struct {
	// Object is what shall be stored. Defaults change it in place.
	Object *T
	// Old returns what is stored now, nil on creation. It is asked only by the
	// defaults that need it, since decoding a large slice costs time.
	Old func() (*T, error)
	// Now is the time of the write.
	Now time.Time
	// Author is who writes.
	Author Author
}

// An Author is the authenticated user of a write. The zero value is an unknown user, as for
// a file.
type Author struct {
	User   string
	Groups []string
	// Component is true for parts of the control plane that write claims for others: the
	// scheduler, the claim controller.
	Component bool
}

// now is the time of the write as the API server would store it: in whole seconds.
func (w Write[T]) now() *metav1.Time {
	return &metav1.Time{Time: w.Now.UTC().Truncate(time.Second)}
}

// A Default fills in one kind of missing value.
type Default[T any] struct {
	// ID names the default for good. Lower case, words joined by hyphens.
	ID string
	// Doc explains the default. Its first line is a sentence by itself; after an
	// empty line follows why the default exists.
	Doc string
	// Upstream is what the API server does by itself, and since which version.
	Upstream string
	// Source names where the default comes from.
	Source string
	// Apply fills in what is missing and reports it.
	Apply func(w Write[T], settings Settings) (Result, error)
}

// A Table is the list of defaults of one kind.
type Table[T any] []Default[T]

// A Result is what defaults did to an object.
type Result struct {
	Changes []Change
	// Warnings are for the author of the write: something here looks wrong and
	// was left as it is.
	Warnings []Warning
}

// A Change sets one value.
type Change struct {
	// Default is the ID of the default that made the change.
	Default string
	// Pointer is the place as a JSON pointer (RFC 6901); "-" at its end appends to
	// a list.
	Pointer string
	// Value is what stands there now, in the form that encoding/json writes.
	Value any
	// Remove is true if the value was removed.
	Remove bool
}

// A Warning is a likely mistake and its place.
type Warning struct {
	// Default is the ID of the default that found it.
	Default string
	// Path is the place in the notation of field.Path.
	Path string
	// Message is the problem and its correction.
	Message string
}

// Apply applies all defaults of the table, each to the result of those before it.
func (t Table[T]) Apply(w Write[T], settings Settings) (Result, error) {
	var all Result
	for _, d := range t {
		one, err := d.Apply(w, settings)
		if err != nil {
			return Result{}, err
		}
		for _, change := range one.Changes {
			change.Default = d.ID
			all.Changes = append(all.Changes, change)
		}
		for _, warning := range one.Warnings {
			warning.Default = d.ID
			all.Warnings = append(all.Warnings, warning)
		}
	}
	return all, nil
}
