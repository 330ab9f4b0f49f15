package cmdutil

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: a watch prints what is new, at most once a second, also of many changes; a later
// error is a warning, once; the end of the context ends it at once.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, stderr bytes.Buffer
		streams := Streams{Out: &out, Err: &stderr}.Once()
		changed, lines, failed := make(chan struct{}, 1), []string{"NAME\n", "gpu-0  free\n"}, error(nil)
		var reads atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() {
			ended <- Watch(ctx, streams, changed, func(context.Context) ([]string, error) { reads.Add(1); return lines, failed })
		}()
		change := func(after time.Duration) {
			<-time.After(after)
			select {
			case changed <- struct{}{}:
			default: // is said already
			}
			synctest.Wait()
		}
		synctest.Wait()
		lines = []string{"NAME\n", "gpu-0   free\n", "gpu-1   tainted\n"}
		change(time.Millisecond)
		change(time.Millisecond)
		if reads.Load() != 1 {
			t.Errorf("%d reads within a second", reads.Load())
		}
		<-time.After(watchPause)
		synctest.Wait()
		failed = errors.New("no such pod")
		change(time.Minute)
		change(time.Minute)
		if reads.Load() != 4 {
			t.Errorf("%d reads, want those at first, after a second, and of two changes", reads.Load())
		}
		cancel()
		if err := <-ended; !errors.Is(err, ErrInterrupted) {
			t.Error(err)
		}
		if got, want := out.String(), "NAME\ngpu-0  free\ngpu-1   tainted\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
		if got, want := stderr.String(), "warning: no such pod\n"; got != want {
			t.Errorf("standard error: %q, want %q", got, want)
		}
	})
}

// TestDocuments: objects of a watch are documents.
func TestDocuments(t *testing.T) {
	for format, want := range map[string]string{"yaml": "---\na: 1\n", "json": "{\n  \"a\": 1\n}\n", "jsonpath={.a}": "1"} {
		if got, err := Documents(format, []map[string]int{{"a": 1}}); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, %v", format, got, err)
		}
	}
}
