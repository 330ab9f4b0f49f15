// Package wire is what an oracle reads and writes: a [Case] in, an [Answer] out,
// each a line of JSON, in the same order. It is compiled into every oracle too, so
// it imports nothing beside the standard library.
package wire

import "encoding/json"

// The operations of a Case.
const (
	Create = "create"
	Update = "update"
	// Gates asks for Answer.Gates and needs no object.
	Gates = "gates"
	// Fuzz asks for Answer.Object: what upstream's fuzzer makes of Case.Kind and
	// Case.Seed, in v1 or the newest version of the kind.
	Fuzz = "fuzz"
	// Measure asks for Answer.Measured: what the hand-written validation of the object,
	// a new slice or claim, costs.
	Measure = "measure"
)

// AllDRA is a name in Case.Gates that stands for every feature gate of the minor
// whose name begins with DRA and which is neither locked nor in need of a gate of
// another name. A gate named by itself has its own value.
const AllDRA = "AllDRA"

// A Case is one write to an API server.
type Case struct {
	// ID comes back in the answer.
	ID string `json:"id"`
	// Op is Create, Update, Gates, Fuzz or Measure.
	Op string `json:"op"`
	// Subresource is "status" or empty.
	Subresource string `json:"subresource,omitempty"`
	// Object is what the client sends, with apiVersion and kind. A DeviceTaintRule
	// may be v1 everywhere: minors without it take it as their newest version.
	Object json.RawMessage `json:"object,omitempty"`
	// Old is what is stored, for an update. It is taken as it is, invalid or not.
	// An object without a resourceVersion has that of Old.
	Old json.RawMessage `json:"old,omitempty"`
	// Gates are the feature gates that differ from the minor's defaults.
	Gates map[string]bool `json:"gates,omitempty"`
	// Admin says that the namespace has the label that allows adminAccess.
	Admin bool `json:"admin,omitempty"`
	// Kind and Seed say what to Fuzz.
	Kind string `json:"kind,omitempty"`
	Seed int64  `json:"seed,omitempty"`
	// Full asks for Answer.Object and Answer.Dropped.
	Full bool `json:"full,omitempty"`
}

// An Answer is what the API server makes of a Case.
type Answer struct {
	ID string `json:"id"`
	// Errors are sorted and unique by type and field; none means accepted.
	Errors []Error `json:"errors,omitempty"`
	// Object is what would be stored, in the version that came in: with its defaults
	// and without the fields of gates that are off.
	Object json.RawMessage `json:"object,omitempty"`
	// Dropped are the paths of what was sent and is not in Object: fields that the
	// minor does not know, or not with these gates, and those that cannot be written
	// here. Empty values do not count.
	Dropped []string `json:"dropped,omitempty"`
	// DecodeError says why the object could not be read at all.
	DecodeError string `json:"decodeError,omitempty"`
	// Panic says why the API server's code has crashed.
	Panic string `json:"panic,omitempty"`
	// Gates are the minor's gates of DRA.
	Gates map[string]Gate `json:"gates,omitempty"`
	// Measured is what validation costs.
	Measured *Measured `json:"measured,omitempty"`
	// NotServed says that the minor has no such resource, subresource or operation.
	NotServed bool `json:"notServed,omitempty"`
	// Misuse says what is wrong with the case itself, such as an unknown gate.
	Misuse string `json:"misuse,omitempty"`
}

// A Gate is a feature gate of the minor.
type Gate struct {
	// On is its default; Locked says that it can have no other value.
	On     bool `json:"on,omitempty"`
	Locked bool `json:"locked,omitempty"`
}

// Measured is the cost of one validation.
type Measured struct {
	Nanoseconds float64 `json:"nanoseconds"`
	Allocations int64   `json:"allocations"`
	// Bytes are those of the allocations.
	Bytes int64 `json:"bytes"`
	// Errors is how many it found.
	Errors int `json:"errors,omitempty"`
}

// An Error is one reason why a write is refused.
type Error struct {
	// Type is a field.ErrorType, or the reason of the whole answer when Field is
	// empty.
	Type  string `json:"type"`
	Field string `json:"field,omitempty"`
	// Detail is the end of the message. It is for people, and to tell apart what
	// has the same type at the same place.
	Detail string `json:"detail,omitempty"`
}

// Accepted reports whether the write was accepted.
func (a Answer) Accepted() bool {
	return len(a.Errors) == 0 && a.DecodeError == "" && a.Panic == "" && a.Misuse == "" && !a.NotServed
}
