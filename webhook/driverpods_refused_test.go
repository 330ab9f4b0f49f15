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

// TestRefusalsOfReplicas: a controller that tries again after its longest pause gets past the deadline, also where
// each of its tries reaches another replica of the webhook, or one misses many.
func TestRefusalsOfReplicas(t *testing.T) {
	const pause, deadline = 1000 * time.Second, time.Hour
	turns := func(n int) func(int) int { return func(try int) int { return try % n } }
	for name, reached := range map[string]func(try int) int{
		"one": turns(1), "two": turns(2), "three": turns(3), "seven": turns(7),
		"one gets one of 21": func(try int) int { return min(1, try%21) },
	} {
		var replicas [7]refusals
		passed, now := time.Duration(0), time.Unix(0, 0)
		for try := 0; try < 50 && passed == 0; try++ {
			r := &replicas[reached(try)]
			if r.lasting("", "pod", now) >= deadline {
				passed = now.Sub(time.Unix(0, 0))
			}
			r.add("", "pod", now)
			now = now.Add(pause)
		}
		if passed < deadline || passed > 3*deadline {
			t.Errorf("%s: passes after %s of %s", name, passed, now.Sub(time.Unix(0, 0)))
		}
	}
	var r refusals
	r.add("", "pod", time.Unix(0, 0))
	if got := r.lasting("", "pod", time.Unix(0, 0).Add(refusalsEnd+time.Second)); got != 0 {
		t.Errorf("after a long pause refused for %s", got)
	}
}
