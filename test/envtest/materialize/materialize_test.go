package materialize_test

import (
	"errors"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

const rack = `{attributes: {dc.example.com/rack: {string: r1}}}`

// TestNoFight: two writes for each change of a patch and slice, ours and one of the driver,
// and then none; the driver's values come back when the patch goes, although the driver
// has taken over the others. make test-long runs it with the driver's own delay.
func TestNoFight(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	s.publish(one(device("a", "x"), device("b", "y")))
	s.shows("a: model=x", "b: model=y")
	s.quiet()
	change := func(what string, change func(), want ...string) {
		t.Helper()
		stored, before := s.stored(), s.writes(s.user())
		change()
		s.shows(want...)
		s.quiet()
		<-time.After(idle()) // one write more would be too many
		// What the driver writes is not always stored: it can be what the slice has.
		if all, drivers := stored(), s.writes(s.user())-before; all == 0 || all > 2 || drivers != 1 {
			t.Errorf("%s: stored %d times and written by the driver %d times, want 1 or 2 and 1", what, all, drivers)
		}
		s.shows(want...)
	}
	change("a patch", func() { s.patch("rack", rack) }, "a: dc.example.com/rack=r1 model=x", "b: dc.example.com/rack=r1 model=y")
	s.applied("rack", "True", "Patched", "2 of 2 matching devices")
	change("a change", func() {
		s.patch("rack", `{attributes: {dc.example.com/rack: {string: r2}, `+s.driver+`/model: {string: z}}}`)
	}, "a: dc.example.com/rack=r2 model=z", "b: dc.example.com/rack=r2 model=z")
	change("a removal", func() { s.unpatch("rack") }, "a: model=x", "b: model=y")

	// the driver was told of dropped fields, and of nothing else
	s.mutex.Lock()
	defer s.mutex.Unlock()
	dropped := 0
	for _, err := range s.errs {
		if is := (*resourceslice.DroppedFieldsError)(nil); !errors.As(err, &is) {
			t.Errorf("the driver could not publish: %v", err)
		}
		dropped++
	}
	if dropped == 0 {
		t.Error("no DroppedFieldsError: drivers that end at one need no warning any more")
	}
}

// TestDriverLives: a driver that publishes something else, restarts, or loses its slice.
func TestDriverLives(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.publish(one(device("a", "x")))
	s.shows("a: model=z")
	s.quiet()
	s.publish(one(device("a", "x2"), device("b", "y"))) // something else
	s.shows("a: model=z", "b: model=z")
	s.quiet()

	// the slice is deleted by hand: the driver creates it again, of what it took over
	for _, slice := range s.slices() {
		if err := s.c.ResourceV1().ResourceSlices().Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.shows("a: model=z", "b: model=z")
	s.quiet()
	s.unpatch("model")
	s.shows("a: model=x2", "b: model=y")
	s.stays("a: model=x2", "b: model=y")

	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.shows("a: model=z", "b: model=z")
	s.stop()
	s.publish(one(device("a", "x3"))) // a restart with something else
	s.shows("a: model=z")
	s.unpatch("model")
	s.shows("a: model=x3")
	s.stays("a: model=x3")
}

// TestDropped: a driver drops an attribute while a patch removes it, and changes another one.
// After the patch is deleted the slice is what the driver published, at once and for good.
func TestDropped(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	both := device("a", "d-1")
	both.Attributes["extra"] = resourceapi.DeviceAttribute{StringValue: ptr.To("d-1")}
	s.patch("extra", `{attributes: {`+s.driver+`/extra: {"null": {}}}}`)
	s.publish(one(both))
	s.shows("a: model=d-1")
	s.quiet()
	s.publish(one(device("a", "d-2")))
	s.shows("a: model=d-2")
	s.quiet()
	s.unpatch("extra")
	s.stays("a: model=d-2")
	s.publish(one(device("a", "d-3")))
	s.shows("a: model=d-3")
	s.stays("a: model=d-3")
}

// TestWebhookDown: what a driver publishes without a webhook is merged later, and the
// patch says so meanwhile.
func TestWebhookDown(t *testing.T) {
	s := newSite(t, "materialize", quick)
	s.patch("rack", rack)
	s.publish(one(device("a", "x")), one(device("b", "y")))
	s.shows("a: dc.example.com/rack=r1 model=x", "b: dc.example.com/rack=r1 model=y")
	s.applied("rack", "True", "Patched", "2 of 2 matching devices")
	shared.shutWebhook(t)
	s.stop()
	s.publish(one(device("a", "x2")), one(device("b", "y")))
	s.shows("a: model=x2", "b: model=y")
	s.applied("rack", "False", "NotWritten", "2 ResourceSlices")
	shared.openWebhook(t)
	s.shows("a: dc.example.com/rack=r1 model=x2", "b: dc.example.com/rack=r1 model=y")
	s.applied("rack", "True", "Patched", "2 of 2 matching devices")
}
