package reaction_test

import (
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/reaction"
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
