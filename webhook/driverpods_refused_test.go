package webhook

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestRefusalsOfStrangers is an attack: forged deletions of a driver's pod, to let its deadline begin earlier, and of many
// pods, so that there is no room for others.
func TestRefusalsOfStrangers(t *testing.T) {
	var r refusals
	now := time.Unix(0, 0)
	r.add("", "known", now)
	r.add("10.0.0.1", "pod", now)
	for i := range 2 * maxRefusals {
		r.add("10.0.0.1", types.UID(fmt.Sprint(i)), now)
	}
	for i := range 32 {
		now = now.Add(time.Second)
		r.add(fmt.Sprint("10.0.1.", i), "pod", now)
	}
	r.add("10.1.0.1", "pod", now)
	later := now.Add(time.Minute)
	for address, want := range map[string]time.Duration{"10.1.0.1": time.Minute, "10.2.0.1": 0, "10.0.0.1": 0} {
		if got := r.lasting(address, "pod", later); got != want {
			t.Errorf("to %s refused for %s, want %s", address, got, want)
		}
	}
	if r.lasting("", "known", later) == 0 {
		t.Error("what was refused to an API server is forgotten")
	}
	if n := len(slices.Collect(r.callers.All())); n != 16 {
		t.Errorf("%d callers are remembered", n)
	}
}
