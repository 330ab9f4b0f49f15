package slicemerge

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/patch"
)

// TestEvaluations: what is known of a slice is handed to one goroutine only, and what is
// remembered of all slices stays within its bound.
func TestEvaluations(t *testing.T) {
	var known evaluations
	slice := func(i int) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s-", i)}, Spec: resourceapi.ResourceSliceSpec{
			Devices: slices.Repeat([]resourceapi.Device{{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"n": {}}}}, 128)}}
	}
	for i := range 2000 {
		s := slice(i)
		e := patch.NewEvaluation(s)
		known.put(s, e, 10)
		if known.take(s.Name) != e || known.take(s.Name) != nil {
			t.Fatal("what is known of a slice is not handed over once")
		}
		known.put(s, e, 10)
		known.put(s, e, 10)
	}
	sum := 0
	for _, e := range known.kept {
		sum += e.bytes
	}
	if sum != known.bytes || sum > keptBytes || sum < keptBytes/2 {
		t.Errorf("%d bytes are counted, %d kept, of at most %d", known.bytes, sum, keptBytes)
	}
	before := len(known.kept)
	nameless := slice(0)
	nameless.Name = ""
	known.put(nameless, patch.NewEvaluation(nameless), 1)
	large := slice(0)
	known.put(large, patch.NewEvaluation(large), keptBytes)
	if len(known.kept) != before {
		t.Error("a slice without a name, or too large, is remembered")
	}
}
