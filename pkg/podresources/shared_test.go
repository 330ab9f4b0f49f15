package podresources

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared: what a caller gets was read after it asked, callers share reads, and reads begin
// a pause apart.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, reads := time.Now(), 0
		s := shared[time.Duration]{pause: 200 * time.Millisecond, read: func(context.Context) (time.Duration, error) {
			reads++
			at := time.Since(begin)
			<-time.After(50 * time.Millisecond)
			return at, nil
		}}
		var group sync.WaitGroup
		for i := range 1000 {
			group.Go(func() {
				asked := time.Duration(i) * time.Millisecond
				<-time.After(asked)
				if at, err := s.get(t.Context()); err != nil || at < asked || at > asked+200*time.Millisecond {
					t.Errorf("asked after %s, read after %s, %v", asked, at, err)
				}
			})
		}
		group.Wait()
		if reads != 6 {
			t.Errorf("%d reads in a second, want one each 200 ms", reads)
		}
	})
}

// TestSharedGivesUp: a caller that goes away does not wait, and does not end the read of
// others.
func TestSharedGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{read: func(ctx context.Context) (int, error) {
			<-time.After(time.Second)
			return 7, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := s.get(ctx); err == nil {
				t.Error("the caller waited")
			}
		})
		if got, err := s.get(t.Context()); got != 7 || err != nil {
			t.Error(got, err)
		}
		group.Wait()
		<-time.After(time.Minute) // a read that no caller waits for ends, too
	})
}
