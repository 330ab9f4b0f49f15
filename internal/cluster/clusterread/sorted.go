package clusterread

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// sorted are objects in the order of the API server: by namespace and name. One that changes costs
// no sort of the others.
type sorted struct {
	keys    []string
	objects []runtime.Object
	// shared is true if a reader has objects: they are copied before they change.
	shared bool
}

// newSorted keeps the objects of a list.
func newSorted(objects []runtime.Object) *sorted {
	s := &sorted{keys: make([]string, 0, len(objects)), objects: make([]runtime.Object, 0, len(objects))}
	type one struct {
		key    string
		object runtime.Object
	}
	all := make([]one, 0, len(objects))
	for _, object := range objects {
		if key, ok := keyOf(object); ok {
			all = append(all, one{key, object})
		}
	}
	slices.SortStableFunc(all, func(a, b one) int { return strings.Compare(a.key, b.key) })
	for i, o := range all {
		if i+1 < len(all) && all[i+1].key == o.key { // two pages of a list can have it: the later one counts
			continue
		}
		s.keys, s.objects = append(s.keys, o.key), append(s.objects, o.object)
	}
	return s
}

// keyOf is what an object is sorted by.
func keyOf(object runtime.Object) (string, bool) {
	about, err := meta.Accessor(object)
	if err != nil {
		return "", false // only a status has no name
	}
	return about.GetNamespace() + "/" + about.GetName(), true
}

// put keeps an object, or drops it.
func (s *sorted) put(object runtime.Object, there bool) {
	key, ok := keyOf(object)
	if !ok {
		return
	}
	at, known := slices.BinarySearch(s.keys, key)
	if !known && !there {
		return
	}
	if s.shared {
		s.objects, s.shared = slices.Clone(s.objects), false
	}
	switch {
	case known && there:
		s.objects[at] = object
	case known:
		s.keys, s.objects = slices.Delete(s.keys, at, at+1), slices.Delete(s.objects, at, at+1)
	default:
		s.keys, s.objects = slices.Insert(s.keys, at, key), slices.Insert(s.objects, at, object)
	}
}

// all are the objects; the caller does not change them.
func (s *sorted) all() []runtime.Object {
	s.shared = true
	return s.objects
}
