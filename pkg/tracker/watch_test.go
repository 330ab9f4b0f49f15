package tracker

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestConvertedWatchEnds: a watch that is stopped with an event that was not read leaves no goroutine.
func TestConvertedWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 2})
		w := convertWatch(from, func(event watch.Event) watch.Event {
			event.Type = watch.Modified
			return event
		})
		from.Add(&corev1.Pod{})
		if event := <-w.ResultChan(); event.Type != watch.Modified {
			t.Errorf("%+v", event)
		}
		from.Add(&corev1.Pod{})
		synctest.Wait()
		w.Stop()
		w.Stop()
		synctest.Wait()
		if _, open := <-w.ResultChan(); open {
			t.Error("the watch has not ended")
		}
	})
}
