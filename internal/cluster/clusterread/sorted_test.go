package clusterread

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestSorted compares the list with a map that is sorted again. What a reader has does not change.
func TestSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	name := func() string { return string(rune('a'+random.IntN(26))) + string(rune('a'+random.IntN(3))) }
	want := map[string]runtime.Object{}
	var objects []runtime.Object
	for range 20 {
		n := node(name(), "1")
		objects = append(objects, n)
		want["/"+n.Name] = n
	}
	s := newSorted(append(objects, &metav1.Status{}))
	for round := range 2000 {
		read := s.all()
		kept := slices.Clone(read)
		changed := node(name(), "2")
		there := random.IntN(2) == 0
		if s.put(changed, there); there {
			want["/"+changed.Name] = changed
		} else {
			delete(want, "/"+changed.Name)
		}
		var sorted []runtime.Object
		for _, key := range slices.Sorted(maps.Keys(want)) {
			sorted = append(sorted, want[key])
		}
		if !slices.Equal(s.objects, sorted) || !slices.Equal(s.keys, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("round %d: %d objects, want %d", round, len(s.objects), len(sorted))
		}
		if !slices.Equal(read, kept) {
			t.Fatalf("round %d: what a reader has changes", round)
		}
	}
}
