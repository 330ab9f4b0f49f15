// Package caller tells who sends a request: what one caller sends is not counted against another.
package caller

import "context"

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
