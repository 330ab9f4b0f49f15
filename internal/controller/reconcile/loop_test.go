package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
)

// TestLoop: a key that fails is reported and tried again after pauses that grow to the
// longest; others go on meanwhile. After success the pauses begin with the first again.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		queue := reconcile.Queue[string](time.Second, 4*time.Second)
		begin := time.Now()
		var tried []time.Duration
		var reported, good int
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			reconcile.Loop(ctx, queue, func(_ context.Context, key string) error {
				if key == "good" {
					good++
					return nil
				}
				tried = append(tried, time.Since(begin))
				if len(tried) == 5 {
					return nil
				}
				return errors.New("no answer")
			}, func(_ error, key string) {
				if key != "bad" {
					t.Errorf("reported %s", key)
				}
				reported++
			})
		}()
		queue.Add("bad")
		queue.Add("good")
		<-time.After(time.Minute)
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second}; !slices.Equal(tried, want) || reported != 4 || good != 1 {
			t.Errorf("tried after %v, want %v; %d errors reported, want 4; the other key %d times", tried, want, reported, good)
		}
		queue.Add("bad")
		cancel()
		<-ended
		if queue.ShuttingDown() != true {
			t.Error("the queue goes on after the end")
		}
	})
}

// TestLoopAtTheEnd: an error of a call that ctx has ended is not reported.
func TestLoopAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	queue := reconcile.Queue[int](time.Second, time.Second)
	queue.Add(1)
	reconcile.Loop(ctx, queue, func(ctx context.Context, _ int) error {
		cancel()
		return ctx.Err()
	}, func(err error, _ int) { t.Errorf("reported %v", err) })
}
