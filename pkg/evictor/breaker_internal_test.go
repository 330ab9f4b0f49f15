package evictor

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestDistinct(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var d distinct
	want := map[hash]int{}
	for step := range 5000 {
		value := hash{byte(random.Uint32N(40))}
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

// TestChosenNames is an attack: names of claims whose 32-bit FNV hashes are equal. Each claim counts.
func TestChosenNames(t *testing.T) {
	fnvOf := func(name string) uint32 {
		h := fnv.New32a()
		h.Write([]byte("mallory\x00" + name + "\x00"))
		return h.Sum32()
	}
	const wanted = 12 // of about 300,000 names
	same := map[uint32][]string{}
	for n := 0; len(same[0]) < wanted; n++ {
		name := fmt.Sprint("claim-", n)
		at := fnvOf(name)
		if same[at] = append(same[at], name); len(same[at]) == 2 {
			same[0] = append(same[0], same[at]...)
		}
	}
	var its portion
	for _, name := range same[0] {
		its.pods++
		its.change(Reason{Device: DeviceID{Driver: "gpu.example.com", Pool: "node-1", Device: name}, Claim: types.NamespacedName{Namespace: "mallory", Name: name}}, +1)
	}
	if its.weight() != len(same[0]) {
		t.Errorf("%d pods with a claim and a device each count as %d", its.pods, its.weight())
	}
}
