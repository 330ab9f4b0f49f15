package mutate_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// FuzzDefaults makes objects of any bytes. Defaults never panic, they change exactly what
// they report, and applying them a second time changes nothing.
func FuzzDefaults(f *testing.F) {
	f.Add([]byte("seed"), []byte("another"))
	f.Add([]byte{}, []byte{0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, object, old []byte) {
		fuzz(t, mutate.ResourceSlice(), object, old)
		fuzz(t, mutate.ResourceClaim(), object, old)
		fuzz(t, mutate.ResourceClaimTemplate(), object, old)
		fuzz(t, mutate.DeviceTaintRule(), object, old)
		fuzz(t, mutate.DeviceDrain(), object, old)
	})
}

func fuzz[T any](t *testing.T, defaults mutate.Table[T], object, old []byte) {
	t.Helper()
	obj, stored := new(T), new(T)
	filler(object).Fill(obj)
	filler(old).Fill(stored)
	before, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	write := mutate.Write[T]{Object: obj, Old: func() (*T, error) { return stored, nil }, Now: writeTime}
	result, err := defaults.Apply(write, mutate.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(normal(t, after), normal(t, patched(t, before, result))); diff != "" {
		t.Errorf("%T: -object +changes:\n%s", obj, diff)
	}
	if again, err := defaults.Apply(write, mutate.Settings{}); err != nil || len(again.Changes) > 0 {
		t.Errorf("%T: not idempotent: %v, %v", obj, again.Changes, err)
	}
}

// filler fills objects from bytes, with values that have a form in JSON.
func filler(data []byte) *randfill.Filler {
	return randfill.NewFromGoFuzz(data).NilChance(.2).NumElements(0, 4).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) { q.Set(c.Int63n(1 << 40)) },
		func(t *metav1.Time, c randfill.Continue) { t.Time = time.Unix(c.Int63n(1<<33), 0) },
		func(*runtime.RawExtension, randfill.Continue) {},
		func(*metav1.FieldsV1, randfill.Continue) {},
	)
}

func normal(t *testing.T, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
