package evictor

import (
	"math/rand/v2"
	"testing"
)

func TestDistinct(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var d distinct
	want := map[uint32]int{}
	for step := range 5000 {
		value := random.Uint32N(40)
		by := 1
		if random.IntN(2) == 0 && want[value] > 0 {
			by = -1
		}
		d.change(value, by)
		change(want, value, by)
		if d.count() != len(want) {
			t.Fatalf("after %d steps: %d, want %d", step, d.count(), len(want))
		}
	}
	for value, n := range want {
		for range n {
			d.change(value, -1)
		}
	}
	if d.count() != 0 {
		t.Errorf("left behind: %d", d.count())
	}
}

// TestAllTainted: a driver that taints its only device reports a fault; one that taints all of
// several may be the fault.
func TestAllTainted(t *testing.T) {
	for counts, want := range map[driverCount]bool{
		{published: 1, tainted: 1}: false, {published: 2, tainted: 2}: true, {published: 3, tainted: 2}: false, {}: false,
	} {
		if got := counts.allTainted(); got != want {
			t.Errorf("%+v: %v, want %v", counts, got, want)
		}
	}
}
