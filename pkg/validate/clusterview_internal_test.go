package validate

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOrderOnce: the slices are sorted once for all claims that are checked, until another is
// added, and the sample that is kept is that of the slices.
func TestOrderOnce(t *testing.T) {
	var clusterView Objects
	add := func(driver string, i int) {
		clusterView.Add(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%03d", driver, i)}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Pool: resourceapi.ResourcePool{Name: fmt.Sprintf("node-%03d", i)}, Devices: []resourceapi.Device{{Name: "a"}, {Name: "b"}}}})
	}
	for i := range 300 {
		add("b.example.com", i)
	}
	first := clusterView.order()
	if clusterView.order() != first || orderIn(&clusterView) != first || orderIn(struct{ *Objects }{&clusterView}) != first {
		t.Error("the slices were sorted twice")
	}
	add("a.example.com", 0)
	if names := slices.Collect(clusterView.Slices()); len(names) != 301 || names[0].Spec.Driver != "a.example.com" {
		t.Errorf("%d slices, the first of %s; want 301, the first of the driver that was added", len(names), names[0].Spec.Driver)
	}
	var want, got []sampled
	for slice, device := range sampleOf(clusterView.Slices()) {
		want = append(want, sampled{slice, device})
	}
	for slice, device := range sample(&clusterView) {
		got = append(got, sampled{slice, device})
	}
	if len(got) != sampledDevices+2 || !slices.Equal(got, want) {
		t.Errorf("%d devices in the sample, want the %d that the slices have", len(got), len(want))
	}
}

// keeper is a ClusterView that keeps its sample.
type keeper struct {
	Objects
	kept any
}

func (k *keeper) Sample(choose func(iter.Seq[*resourceapi.ResourceSlice]) any) any {
	if k.kept == nil {
		k.kept = choose(k.Slices())
	}
	return k.kept
}

// TestSampleIsKept: a ClusterView that keeps the sample is asked for it, not for its slices.
func TestSampleIsKept(t *testing.T) {
	var view keeper
	view.Add(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourceapi.ResourceSliceSpec{Driver: "a", Devices: []resourceapi.Device{{Name: "a"}, {Name: "b"}}}})
	for range 2 {
		n := 0
		for range sample(&view) {
			n++
		}
		if n != 2 {
			t.Errorf("%d devices in the sample, want 2", n)
		}
		view.Add(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: resourceapi.ResourceSliceSpec{Driver: "b", Devices: []resourceapi.Device{{Name: "c"}}}})
	}
	view.kept = "something else"
	n := 0
	for range sample(&view) {
		n++
	}
	if n != 3 {
		t.Errorf("%d devices in the sample of the slices, want 3", n)
	}
}
