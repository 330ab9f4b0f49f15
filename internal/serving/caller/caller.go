// Package caller identifies who sends a request, so that limits apply per caller.
package caller

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"
)

type addressKey struct{}

// With returns the context of a request from an address. It is empty for callers with a client
// certificate of an API server: all of them are one caller.
func With(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// Address returns the address that a request is from, empty for an API server that is known and for this program.
func Address(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

// most is how many callers a Recent remembers.
const most = 16

// Recent has a value for each of the 16 callers that were seen last. The API servers that are known stay.
// The zero value is empty. Its user serializes the calls.
type Recent[T any] struct {
	all map[string]*seen[T]
}

type seen[T any] struct {
	value T
	last  time.Time
}

// Of returns the value of a caller that is seen now; the zero value for a new one.
func (r *Recent[T]) Of(address string, now time.Time) *T {
	if r.all == nil {
		r.all = map[string]*seen[T]{}
	}
	of := r.all[address]
	if of == nil {
		if len(r.all) >= most {
			others := slices.DeleteFunc(slices.Collect(maps.Keys(r.all)), func(address string) bool { return address == "" })
			delete(r.all, slices.MinFunc(others, func(a, b string) int { return r.all[a].last.Compare(r.all[b].last) }))
		}
		of = &seen[T]{}
		r.all[address] = of
	}
	of.last = now
	return &of.value
}

// All yields the values of all callers, in no order.
func (r *Recent[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, of := range r.all {
			if !yield(&of.value) {
				return
			}
		}
	}
}
