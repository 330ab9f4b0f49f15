package podresources

import (
	"context"
	"sync"
	"time"
)

// sharedTimeout bounds a read that several callers wait for.
const sharedTimeout = 15 * time.Second

// A shared read answers many callers with few reads. What a caller gets was read after it
// asked; callers that ask during a read share the next one. Reads begin at least a pause
// apart, one at a time.
type shared[T any] struct {
	read  func(context.Context) (T, error)
	pause time.Duration

	mutex sync.Mutex // guards what follows
	next  *sharedRead[T]
	last  *sharedRead[T]
}

type sharedRead[T any] struct {
	begun time.Time
	done  chan struct{} // closed when what follows is set
	value T
	err   error
}

func (s *shared[T]) get(ctx context.Context) (value T, err error) {
	s.mutex.Lock()
	r := s.next
	if r == nil {
		r = &sharedRead[T]{done: make(chan struct{})}
		go s.run(r, s.last)
		s.next, s.last = r, r
	}
	s.mutex.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// run reads after the read before.
func (s *shared[T]) run(r, before *sharedRead[T]) {
	defer close(r.done)
	if before != nil {
		<-before.done
		<-time.After(time.Until(before.begun.Add(s.pause)))
	}
	s.mutex.Lock()
	s.next, r.begun = nil, time.Now() // who asks from now on waits for the next
	s.mutex.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
	defer cancel()
	r.value, r.err = s.read(ctx)
}
