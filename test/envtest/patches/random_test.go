package patches_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	slicepatch "github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// TestRandomChanges changes 1,000 slices of 64 devices, 100 rules and 50 patches at
// random. At the end the view is what can be computed from the objects, and so is that of
// a reader of the events. It takes a quarter of a minute, a minute where a version of
// Kubernetes is named, as make test-long does.
func TestRandomChanges(t *testing.T) {
	lasts := 15 * time.Second
	if os.Getenv(assets.VersionVariable) != "" {
		lasts = time.Minute
	}
	c := newClients(t)
	c.installPatches(t)
	defer c.clean(t)
	fill(t, 1000, func(ctx context.Context, i int) error {
		_, err := c.ResourceV1().ResourceSlices().Create(ctx, slice(i, 0, 64), metav1.CreateOptions{})
		return err
	})
	fill(t, 100, func(ctx context.Context, i int) error {
		return c.changeRule(ctx, rand.New(rand.NewPCG(1, uint64(i))), i)
	})
	fill(t, 50, func(ctx context.Context, i int) error {
		return c.changePatch(ctx, rand.New(rand.NewPCG(2, uint64(i))), i)
	})

	tracked := started(t, cluster.Config(), tracker.Options{Window: time.Millisecond})
	events := &reader{view: map[string]string{}}
	tracked.AddEventHandler(events)
	synced(t, tracked)
	end := time.Now().Add(lasts)
	var changes atomic.Int64
	var workers sync.WaitGroup
	for w := range uint64(4) {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(3, w))
			for time.Now().Before(end) {
				if err := c.change(t.Context(), random); err != nil {
					t.Error(err)
					return
				}
				changes.Add(1)
			}
		})
	}
	workers.Wait()
	want, err := c.naive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the view is the recomputation", func(context.Context) (bool, error) {
		return differ(want, texts(tracked.Snapshot())) == "", nil
	})
	eventually(t, "the reader of the events has the same", func(context.Context) (bool, error) {
		return differ(want, events.copy()) == "", nil
	})
	t.Logf("%d changes in %v, %d events, %d views published", changes.Load(), lasts, events.n.Load(), tracked.Snapshot().Revision())
}

// fill calls f for 0 to n-1, several at a time.
func fill(t *testing.T, n int, f func(context.Context, int) error) {
	t.Helper()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// change makes one random change.
func (c clients) change(ctx context.Context, random *rand.Rand) error {
	switch random.IntN(4) {
	case 0:
		return c.changeRule(ctx, random, random.IntN(100))
	case 1:
		return c.changePatch(ctx, random, random.IntN(50))
	}
	i := random.IntN(1000)
	client := c.ResourceV1().ResourceSlices()
	old, err := client.Get(ctx, "slice-"+strconv.Itoa(i), metav1.GetOptions{})
	changed := slice(i, random.IntN(1000), 1+random.IntN(64))
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, changed, metav1.CreateOptions{})
	case err != nil:
	case random.IntN(5) == 0:
		err = client.Delete(ctx, old.Name, metav1.DeleteOptions{})
	default:
		changed.ResourceVersion = old.ResourceVersion
		_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
	}
	return raced(err)
}

// raced forgives what another worker was first to do.
func raced(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// filterOf makes a filter of few names; device says which devices there are.
func filterOf(random *rand.Rand) map[string]any {
	filter := map[string]any{}
	for name, value := range map[string]string{
		"driver": fmt.Sprintf("driver-%d.example.com", random.IntN(4)),
		"pool":   "pool-" + strconv.Itoa(random.IntN(200)),
		"device": fmt.Sprintf("device-%d-%d", random.IntN(5), random.IntN(64)),
	} {
		if random.IntN(3) > 0 {
			filter[name] = value
		}
	}
	return filter
}

func (c clients) changeRule(ctx context.Context, random *rand.Rand, i int) error {
	return replace(ctx, c.rules, random, rule("rule-"+strconv.Itoa(i), strconv.Itoa(random.IntN(5)), filterOf(random)))
}

func (c clients) changePatch(ctx context.Context, random *rand.Rand, i int) error {
	filter := filterOf(random)
	switch random.IntN(3) {
	case 0:
		filter["selectors"] = []any{map[string]any{"cel": map[string]any{"expression": `device.attributes[device.driver].model.endsWith("7")`}}}
	case 1:
		filter["selectors"] = []any{map[string]any{"cel": map[string]any{"expression": `device.attributes["none.example.com"].model == "x"`}}}
	}
	p := patch("patch-"+strconv.Itoa(i), strconv.Itoa(random.IntN(5)), filter)
	if err := unstructured.SetNestedField(p.Object, int64(random.IntN(3)), "spec", "devices", "priority"); err != nil {
		return err
	}
	return replace(ctx, c.patches, random, p)
}

// replace creates an object, or changes or deletes the one of its name.
func replace(ctx context.Context, client dynamic.ResourceInterface, random *rand.Rand, object *unstructured.Unstructured) error {
	old, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
	case err != nil:
	case random.IntN(4) == 0:
		err = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
	default:
		object.SetResourceVersion(old.GetResourceVersion())
		_, err = client.Update(ctx, object, metav1.UpdateOptions{})
	}
	return raced(err)
}

// naive computes the view from what the API server has: name to text.
func (c clients) naive(ctx context.Context) (map[string]string, error) {
	all, err := c.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	rules, err := list[resourceapi.DeviceTaintRule](ctx, c.rules)
	if err != nil {
		return nil, err
	}
	objects, err := list[v1alpha1.ResourceSlicePatch](ctx, c.patches)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rules, func(a, b *resourceapi.DeviceTaintRule) int { return strings.Compare(a.Name, b.Name) })
	var compiler slicepatch.Compiler
	var patches []*slicepatch.Patch
	for _, object := range objects {
		patches = append(patches, compiler.Compile(object, nil))
	}
	view := map[string]string{}
	for i := range all.Items {
		merged := slicepatch.Apply(&all.Items[i], patches).Slice.DeepCopy()
		for d := range merged.Spec.Devices {
			device := &merged.Spec.Devices[d]
			for _, rule := range rules {
				if s := rule.Spec.DeviceSelector; s != nil && is(s.Driver, merged.Spec.Driver) && is(s.Pool, merged.Spec.Pool.Name) && is(s.Device, device.Name) {
					device.Taints = append(device.Taints, rule.Spec.Taint)
				}
			}
		}
		view[merged.Name] = text(merged)
	}
	return view, nil
}

func is(want *string, got string) bool { return want == nil || *want == got }

func list[T any](ctx context.Context, client dynamic.ResourceInterface) (all []*T, err error) {
	found, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, item := range found.Items {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, object); err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}

// text is all of a slice but for the managed fields.
func text(slice *resourceapi.ResourceSlice) string {
	shown := *slice
	shown.ManagedFields = nil
	shown.TypeMeta = metav1.TypeMeta{}
	out, err := json.Marshal(&shown)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func texts(s *tracker.Snapshot) map[string]string {
	view := map[string]string{}
	for _, slice := range s.List(nil) {
		view[slice.Name] = text(slice)
	}
	return view
}

// differ names a difference.
func differ(a, b map[string]string) string {
	for name := range a {
		if a[name] != b[name] {
			return name
		}
	}
	for name := range maps.Keys(b) {
		if _, ok := a[name]; !ok {
			return name
		}
	}
	return ""
}

// reader keeps a view out of events.
type reader struct {
	mutex sync.Mutex
	view  map[string]string
	n     atomic.Int64
}

func (r *reader) OnAdd(object any, _ bool) { r.set(object.(*resourceapi.ResourceSlice)) }
func (r *reader) OnUpdate(_, object any)   { r.set(object.(*resourceapi.ResourceSlice)) }
func (r *reader) OnDelete(object any) {
	r.n.Add(1)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.view, object.(*resourceapi.ResourceSlice).Name)
}

func (r *reader) set(slice *resourceapi.ResourceSlice) {
	r.n.Add(1)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.view[slice.Name] = text(slice)
}

func (r *reader) copy() map[string]string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return maps.Clone(r.view)
}
