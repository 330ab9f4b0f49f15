package fairqueue

import (
	"context"
	"sync"
	"time"
)

// An Allowance is the time that one request may spend on something, in several parts.
type Allowance struct {
	ctx context.Context

	mu   sync.Mutex
	left time.Duration
}

// Allow returns an allowance that ends with ctx.
func Allow(ctx context.Context, d time.Duration) *Allowance { return &Allowance{ctx: ctx, left: d} }

// Take starts a part. It returns a context that ends with the allowance, and a function
// that ends the part, to be called once; false if nothing is left.
func (a *Allowance) Take() (part context.Context, done func(), ok bool) {
	a.mu.Lock()
	left := a.left
	a.mu.Unlock()
	if left <= 0 || a.ctx.Err() != nil {
		return nil, nil, false
	}
	start := time.Now()
	part, cancel := context.WithTimeout(a.ctx, left)
	return part, func() {
		cancel()
		a.mu.Lock()
		a.left -= time.Since(start)
		a.mu.Unlock()
	}, true
}
