package validate

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func member(name, pool string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceSliceSpec{Driver: "d", Pool: resourceapi.ResourcePool{Name: pool}},
	}
}

func TestObjects(t *testing.T) {
	var clusterView Objects
	if clusterView.Class("a") != nil || len(clusterView.Pool("d", "p")) > 0 {
		t.Error("an empty world has something")
	}
	for _, object := range []any{member("b", "p"), member("a", "p"), member("c", "q"), member("a", "p"), "of no kind"} {
		clusterView.Add(object)
	}
	for _, name := range []string{"y", "x"} {
		clusterView.Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	var names []string
	for _, slice := range clusterView.Pool("d", "p") {
		names = append(names, slice.Name)
	}
	for class := range clusterView.Classes() {
		names = append(names, class.Name)
	}
	if got := len(names); got != 4 || names[0] != "a" || names[1] != "b" || names[2] != "x" || names[3] != "y" {
		t.Errorf("got %v, want a and b of the pool, then the classes x and y", names)
	}
}

// TestAddToAnotherPool: a slice replaces the one with its name, in whatever pool that is; slices without
// a name are of generateName.
func TestAddToAnotherPool(t *testing.T) {
	var clusterView Objects
	for _, slice := range []*resourceapi.ResourceSlice{member("a", "p"), member("b", "p"), member("", "p"), member("a", "q"), member("", "q")} {
		clusterView.Add(slice)
	}
	var got []string
	for slice := range clusterView.Slices() {
		got = append(got, slice.Spec.Pool.Name+"/"+slice.Name)
	}
	if want := []string{"p/", "p/b", "q/", "q/a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
