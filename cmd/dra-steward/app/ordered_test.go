package app

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestOrderedSlices(t *testing.T) {
	slice := func(driver, name string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{Driver: driver}}
	}
	var o orderedSlices
	names := func() (names []string) {
		for slice := range o.all() {
			names = append(names, slice.Spec.Driver+"/"+slice.Name)
		}
		return names
	}
	for _, name := range []string{"c", "a", "b"} {
		o.OnAdd(slice("x", name), true)
		o.OnAdd(slice("w", name), false)
	}
	before := o.all()
	o.OnUpdate(slice("x", "b"), slice("x", "b"))
	o.OnUpdate(slice("w", "a"), slice("y", "a"))
	o.OnDelete(slice("x", "c"))
	o.OnDelete(cache.DeletedFinalStateUnknown{Obj: slice("w", "c")})
	o.OnDelete(slice("w", "never"))
	if got, want := names(), []string{"w/b", "x/a", "x/b", "y/a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := len(slices.Collect(before)); got != 6 {
		t.Errorf("who walks already sees %d slices, want the 6 of then", got)
	}
}
