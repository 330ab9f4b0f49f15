package mutate

import (
	"embed"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Write is the creation or update of an object of type T.
type Write[T any] struct {
	// Object is what shall be stored. Defaults change it in place.
	Object *T
	// Old returns what is stored now, nil on creation; without it, the write is a creation. It is
	// asked only by the defaults that need it, since decoding a large slice costs time.
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
	// Component is true for who keeps the tolerations of a claim: parts of the control plane that
	// write claims for others, as the scheduler and the claim controller do, and who is exempt.
	Component bool
}

func (w Write[T]) old() (*T, error) {
	if w.Old == nil {
		return nil, nil
	}
	return w.Old()
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
	// Value is the new value, in the form that encoding/json writes.
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

// A Description documents a default, independent of the type of its objects.
type Description struct {
	ID, Doc, Upstream, Source string
	// Kinds are the kinds of resource.k8s.io, and of dra-steward.io, that the default fills in.
	Kinds []string
}

// Defaults describes all defaults, each once, in the order of the tables.
func Defaults() []Description {
	var all []Description
	all = describe(all, "ResourceSlice", ResourceSlice())
	all = describe(all, "DeviceTaintRule", DeviceTaintRule())
	all = describe(all, "ResourceClaim", ResourceClaim())
	all = describe(all, "ResourceClaimTemplate", ResourceClaimTemplate())
	all = describe(all, "DeviceDrain", DeviceDrain())
	return all
}

func describe[T any](all []Description, kind string, defaults Table[T]) []Description {
	for _, d := range defaults {
		at := slices.IndexFunc(all, func(known Description) bool { return known.ID == d.ID })
		if at < 0 {
			at = len(all)
			all = append(all, Description{ID: d.ID, Doc: d.Doc, Upstream: d.Upstream, Source: d.Source})
		}
		all[at].Kinds = append(all[at].Kinds, kind)
	}
	return all
}

// Examples holds the example of every default, examples/<ID>.txtar. The time of
// the write in them is 2026-01-02T03:04:05Z.
//
//go:embed examples
var Examples embed.FS
