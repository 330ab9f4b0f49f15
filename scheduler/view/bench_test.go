package view_test

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/scheduler/view"
)

// BenchmarkList lists 10,000 slices as the scheduler does for each pod: from an informer's
// store, in no order, and with patches of which one selects every slice.
func BenchmarkList(b *testing.B) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for i := range 10000 {
		if err := store.Add(slice(fmt.Sprint("n", i), 1)); err != nil {
			b.Fatal(err)
		}
	}
	published := func() []*resourceapi.ResourceSlice {
		objects := store.List()
		all := make([]*resourceapi.ResourceSlice, len(objects))
		for i, object := range objects {
			all[i] = object.(*resourceapi.ResourceSlice)
		}
		return all
	}
	b.Run("published", func(b *testing.B) {
		for b.Loop() {
			published()
		}
	})
	for _, patches := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("%d patches", patches), func(b *testing.B) {
			var v view.View
			for i := range patches {
				p := rack(fmt.Sprint("p", i), "r1", 1, "")
				if i > 0 {
					p.Spec.Devices.Filter.Pool = ptr.To(fmt.Sprint("n", i))
				}
				v.Put(p, nil)
			}
			v.Rebuild(published(), time.Now())
			for b.Loop() {
				v.List(published(), time.Now())
			}
		})
	}
	b.Run("a slice changes each time", func(b *testing.B) {
		var v view.View
		v.Put(rack("p", "r1", 1, ""), nil)
		v.Rebuild(published(), time.Now())
		for i := 0; b.Loop(); i++ {
			if err := store.Add(slice("n7", i)); err != nil {
				b.Fatal(err)
			}
			v.List(published(), time.Now())
		}
	})
}

// BenchmarkRebuild works in one patch of 1,000, on 10,000 slices.
func BenchmarkRebuild(b *testing.B) {
	var published []*resourceapi.ResourceSlice
	var v view.View
	for i := range 10000 {
		published = append(published, slice(fmt.Sprint("n", i), 1))
	}
	for i := range 1000 {
		p := rack(fmt.Sprint("p", i), "r1", 1, "")
		p.Spec.Devices.Filter.Pool = ptr.To(fmt.Sprint("n", i))
		v.Put(p, nil)
	}
	v.Rebuild(published, time.Now())
	for _, pool := range []*string{ptr.To("n7"), nil} {
		b.Run(fmt.Sprint("of every slice ", pool == nil), func(b *testing.B) {
			generation := int64(1)
			for b.Loop() {
				generation++
				p := rack("p7", "r2", generation, "")
				p.Spec.Devices.Filter.Pool = pool
				v.Put(p, nil)
				v.Rebuild(published, time.Now())
			}
		})
	}
}
