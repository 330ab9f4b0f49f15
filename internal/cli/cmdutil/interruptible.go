package cmdutil

import (
	"context"
	"io"
)

// Interruptible returns a reader whose reads end with an error when ctx ends. A read of a
// terminal or a pipe otherwise lasts until there is input. The last read of in goes on in
// the background, so in is of no use afterwards.
func Interruptible(ctx context.Context, in io.Reader) io.Reader {
	if in == nil || ctx.Done() == nil {
		return in
	}
	return &interruptible{ctx: ctx, in: in, done: make(chan int, 1)}
}

type interruptible struct {
	ctx    context.Context
	in     io.Reader
	buffer []byte
	done   chan int
	err    error // of the read that is done
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if cap(r.buffer) < len(p) {
		r.buffer = make([]byte, len(p))
	}
	buffer := r.buffer[:len(p)]
	go func() {
		n, err := r.in.Read(buffer)
		r.err = err
		r.done <- n
	}()
	select {
	case n := <-r.done:
		return copy(p, buffer[:n]), r.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
