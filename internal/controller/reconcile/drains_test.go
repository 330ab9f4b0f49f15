package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// beginnings count what is noted.
type beginnings struct {
	Beginnings
	stored  int
	deleted []any
}

func (b *beginnings) Stored(any, time.Time) { b.stored++ }
func (b *beginnings) Deleted(d any)         { b.deleted = append(b.deleted, d) }

// TestMadeBehindInformer: a drain that was created and deleted before the informer has either does not
// count, whatever the informer shows meanwhile.
func TestMadeBehindInformer(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	seen := "4"
	noted := &beginnings{}
	made, now := NewDrainStore(store, func() string { return seen }, noted), time.Unix(1, 0)
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: types.UID("1"), ResourceVersion: "5"}}
	counts := func(want int, when string) {
		t.Helper()
		if all := made.All(now); len(all) != want {
			t.Errorf("%s: %d drains count, want %d", when, len(all), want)
		}
	}
	made.Wrote(d, now)
	counts(1, "created")
	made.Deleted(d, now)
	counts(0, "deleted")
	counts(0, "deleted, second pass")
	if err := store.Add(d); err != nil {
		t.Fatal(err)
	}
	counts(0, "the informer has the creation")
	if err := store.Delete(d); err != nil {
		t.Fatal(err)
	}
	counts(0, "the informer has the deletion")
	next := d.DeepCopy()
	next.UID, next.ResourceVersion = "2", "9"
	made.Wrote(next, now)
	counts(1, "another of the same name")
	now = now.Add(expected + time.Second)
	counts(1, "the informer is behind")
	seen = "10"
	counts(0, "the informer never had it")
	if noted.stored != 2 || len(noted.deleted) != 2 || noted.deleted[0] != d || noted.deleted[1] != next {
		t.Errorf("noted: %+v", noted)
	}
	if err := store.Add(d.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	delete(made.deleted, d.UID)
	counts(1, "a drain of another author")
	made.Wrote(next, now)
	counts(1, "ours takes its place")
	if all := made.All(now); all[0].UID != next.UID {
		t.Errorf("the drain that was deleted counts, and not the one in its place")
	}
	last := next.DeepCopy()
	last.UID, last.ResourceVersion = "3", "11"
	if err := store.Update(last); err != nil {
		t.Fatal(err)
	}
	if all := made.All(now); len(all) != 1 || all[0].UID != last.UID {
		t.Errorf("%d drains count after another one took the place of ours", len(all))
	}
}
