package reaction_test

import (
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// TestRefusedDrain: a device whose drain cannot be created waits, and the message says why.
func TestRefusedDrain(t *testing.T) {
	w := newWorld(t, 2, 8)
	sick := device("node-0", 3)
	w.devices[sick] = true
	var refused map[string]string
	for range 600 {
		w.now = w.now.Add(time.Second)
		in := w.input()
		in.NotCreated = refused
		d := reaction.Decide(in)
		for _, one := range d.Create {
			refused = map[string]string{one.Name: "create DeviceDrain: refused"}
		}
		w.reaction = w.reaction.DeepCopy()
		w.reaction.Status = d.Status // CreateDrain fails
	}
	if got := w.of(sick); got.State != v1alpha1.ReactionWaiting || got.Message == "" {
		t.Errorf("%+v, drains %d", got, len(w.drains))
	}
}

// TestFailsAfterAcknowledgement: a device that is acknowledged, or whose drain is deleted, after its cause has gone
// shows that, and is drained again when it fails again, at once or later. An acknowledgement while the cause
// stands is for this cause, which may be away for less than spec.end.after: a driver restarts, or a slice is
// written without the taint.
func TestFailsAfterAcknowledgement(t *testing.T) {
	acknowledge := func(w *world, name v1alpha1.DeviceName) {
		w.drains[w.of(name).Drain].Annotations[v1alpha1.AcknowledgedAnnotation] = "replaced"
	}
	for name, tt := range map[string]struct {
		gone    bool // the cause has gone when the drain is ended
		end     func(*world, v1alpha1.DeviceName)
		after   time.Duration // is how long the device is healthy then, or away
		vanish  bool
		drained bool
	}{
		"acknowledged when healthy":       {gone: true, end: acknowledge, after: 5 * time.Second, drained: true},
		"deleted when healthy":            {gone: true, end: func(w *world, _ v1alpha1.DeviceName) { clear(w.drains) }, after: 5 * time.Second, drained: true},
		"acknowledged when sick":          {end: acknowledge, after: 5 * time.Second},
		"and the driver restarts":         {end: acknowledge, after: 5 * time.Second, vanish: true},
		"healthy for long enough":         {end: acknowledge, after: 70 * time.Second, drained: true},
		"healthy, and the driver is away": {gone: true, end: acknowledge, after: 5 * time.Second, vanish: true, drained: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, sick := newWorld(t, 2, 8), device("node-0", 3)
			w.drained(sick)
			w.devices[sick] = !tt.gone
			w.run(30 * time.Second)
			tt.end(w, sick)
			w.run(3 * time.Second)
			w.expect(sick, v1alpha1.ReactionAcknowledged)
			if len(w.drains) != 0 {
				t.Fatalf("%d drains", len(w.drains))
			}
			if w.devices[sick] = false; tt.vanish {
				delete(w.devices, sick)
			}
			w.run(tt.after)
			w.devices[sick] = true
			w.run(2 * time.Second)
			if tt.drained {
				w.expect(sick, v1alpha1.ReactionSick)
			}
			w.run(time.Hour)
			if want := map[bool]v1alpha1.ReactionState{true: v1alpha1.ReactionDraining, false: v1alpha1.ReactionAcknowledged}[tt.drained]; w.of(sick).State != want {
				t.Errorf("%+v, %d drains, want %s", w.of(sick), len(w.drains), want)
			}
		})
	}
}
