package console

import (
	"context"
	"sync"
	"time"
)

const (
	// workTime bounds what is computed on demand, waitTime how long a page waits for it.
	workTime = 2 * time.Minute
	waitTime = 8 * time.Second
)

// A work is computed on demand, once at a time for all pages. The last result is kept.
type work[T any] struct {
	mutex sync.Mutex
	// ended is closed when the one that runs has ended; nil if none does.
	ended chan struct{}
	last  result[T]
}

// A result is what a work has computed.
type result[T any] struct {
	Value T
	Err   error
	// Began and Ended are the zero time for a work that has not, Running is true while it runs.
	Began, Ended time.Time
	Running      bool
}

// resultOf computes a value for a page that waits for it.
func resultOf[T any](ctx context.Context, now func() time.Time, compute func(context.Context) (T, error)) result[T] {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	began := now()
	value, err := compute(ctx)
	return result[T]{Value: value, Err: err, Began: began, Ended: now()}
}

// get returns the last result, after it has started a work if none runs and begin says so, and has
// waited some seconds for the one that runs.
func (w *work[T]) get(ctx context.Context, now func() time.Time, begin func(last result[T]) bool, compute func(context.Context) (T, error)) result[T] {
	w.mutex.Lock()
	if w.ended == nil && begin(w.last) {
		w.ended = make(chan struct{})
		w.last.Began, w.last.Running = now(), true
		// The work goes on without the page that asked for it.
		go w.run(context.WithoutCancel(ctx), now, compute)
	}
	ended := w.ended
	w.mutex.Unlock()
	if ended != nil {
		timer := time.NewTimer(waitTime)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.last
}

func (w *work[T]) run(ctx context.Context, now func() time.Time, compute func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	value, err := compute(ctx)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.last = result[T]{Value: value, Err: err, Began: w.last.Began, Ended: now()}
	close(w.ended)
	w.ended = nil
}
