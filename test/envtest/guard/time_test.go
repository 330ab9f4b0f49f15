package guard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// TestReapplyKeepsTime applies one slice again and again, as a driver does that uses
// server-side apply: without dra-steward every apply is a new time and a new
// generation.
func TestReapplyKeepsTime(t *testing.T) {
	_, c, _ := guarded(t, nil)
	slices := c.ResourceV1().ResourceSlices()
	defer slices.Delete(context.WithoutCancel(t.Context()), "reapplied", metav1.DeleteOptions{})
	manifest := resourceapply.ResourceSlice("reapplied").WithSpec(resourceapply.ResourceSliceSpec().
		WithDriver(driver).WithNodeName(node).
		WithPool(resourceapply.ResourcePool().WithName("reapplied").WithGeneration(1).WithResourceSliceCount(1)).
		WithDevices(resourceapply.Device().WithName("gpu-a").
			WithTaints(resourceapply.DeviceTaint().WithKey("example.com/unhealthy").WithEffect(resourceapi.DeviceTaintEffectNoExecute))))
	var times []time.Time
	var generations []int64
	for range 3 {
		stored, err := slices.Apply(t.Context(), manifest, metav1.ApplyOptions{FieldManager: "driver", Force: true})
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, stored.Spec.Devices[0].Taints[0].TimeAdded.Time)
		generations = append(generations, stored.Generation)
		nextSecond(t)
	}
	for i := range times {
		if !times[i].Equal(times[0]) || generations[i] != generations[0] {
			t.Errorf("times %v, generations %v: want all equal", times, generations)
			break
		}
	}
}

// nextSecond waits until the clock of the API server, which is ours, shows another
// second: times of taints have no smaller unit.
func nextSecond(t *testing.T) {
	t.Helper()
	start := time.Now().Unix()
	eventually(t, "the next second", func(context.Context) (bool, error) { return time.Now().Unix() > start, nil })
}

// TestEffectChangeRenewsTime changes a rule from one effect to another: pods have
// their tolerationSeconds from then on. 1.36 and later do so by themselves.
func TestEffectChangeRenewsTime(t *testing.T) {
	guarded(t, map[string]any{"policies": map[string]any{"modes": map[string]any{"DRA-RULE-005": "off"}}}) // the time is long ago
	c, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Resource(cluster.DeviceTaintRules())
	past := time.Now().Add(-time.Hour).Truncate(time.Second).UTC().Format(time.RFC3339)
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": "maintenance"},
		"spec": map[string]any{
			"deviceSelector": map[string]any{"pool": "nowhere"},
			"taint":          map[string]any{"key": "example.com/maintenance", "effect": "NoSchedule", "timeAdded": past},
		},
	}}
	if rule, err = rules.Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer rules.Delete(context.WithoutCancel(t.Context()), "maintenance", metav1.DeleteOptions{})
	if got := timeAdded(t, rule); got.Format(time.RFC3339) != past {
		t.Fatalf("created with %v, want the %v it came with", got, past)
	}
	change := []byte(`{"spec":{"taint":{"effect":"NoExecute"}}}`)
	if rule, err = rules.Patch(t.Context(), "maintenance", types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := timeAdded(t, rule); time.Since(got) > time.Minute {
		t.Errorf("the taint evicts since %v, want since its effect changed", got)
	}
}

func timeAdded(t *testing.T, rule *unstructured.Unstructured) time.Time {
	t.Helper()
	text, _, err := unstructured.NestedString(rule.Object, "spec", "taint", "timeAdded")
	if err != nil {
		t.Fatal(err)
	}
	added, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// TestSliceEffectChangeWarns hands in the old time with a new effect: only the
// driver knows which time is right, so it is told and nothing is changed.
func TestSliceEffectChangeWarns(t *testing.T) {
	_, c, seen := guarded(t, nil)
	slices := c.ResourceV1().ResourceSlices()
	past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	device := resourceapi.Device{Name: "gpu-a", Taints: []resourceapi.DeviceTaint{{Key: "example.com/x", Effect: "NoSchedule", TimeAdded: &past}}}
	stored, err := slices.Create(t.Context(), slice("effect", device), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer slices.Delete(context.WithoutCancel(t.Context()), "effect", metav1.DeleteOptions{})
	stored.Spec.Devices[0].Taints[0].Effect = "NoExecute"
	if stored, err = slices.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := stored.Spec.Devices[0].Taints[0].TimeAdded; !got.Time.Equal(past.Time) {
		t.Errorf("timeAdded became %v, want %v untouched", got, past)
	}
	if got := seen.take(); !strings.Contains(got, "spec.devices[gpu-a].taints[0].timeAdded") || !strings.Contains(got, "NoSchedule to NoExecute") {
		t.Errorf("warnings %q, want one about the time of the changed effect", got)
	}
}

// TestDriverPublishes runs the code that drivers publish with.
func TestDriverPublishes(t *testing.T) {
	_, c, _ := guarded(t, nil)
	hourAgo := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	halfHourAgo := metav1.NewTime(time.Now().Add(-30 * time.Minute).Truncate(time.Second))
	d := startDriver(t, c, untimed("example.com/a"), timed("example.com/b", hourAgo))
	first := d.published(t, 2)
	if got := first[1].TimeAdded.Time; !got.Equal(hourAgo.Time) {
		t.Errorf("explicit time became %v, want %v", got, hourAgo)
	}
	nextSecond(t)

	d.publish(untimed("example.com/a"), timed("example.com/b", halfHourAgo), untimed("example.com/c"))
	second := d.published(t, 3)
	if got := second[0].TimeAdded.Time; !got.Equal(first[0].TimeAdded.Time) {
		t.Errorf("a taint that stays has time %v, want %v as before", got, first[0].TimeAdded)
	}
	if got := second[1].TimeAdded.Time; !got.Equal(halfHourAgo.Time) {
		t.Errorf("a changed explicit time became %v, want %v", got, halfHourAgo)
	}
	nextSecond(t)

	d.publish(timed("example.com/b", halfHourAgo))
	d.published(t, 1)
	nextSecond(t)
	d.publish(timed("example.com/b", halfHourAgo), untimed("example.com/a"))
	third := d.published(t, 2)
	if got := third[1].TimeAdded.Time; !got.After(first[0].TimeAdded.Time) {
		t.Errorf("a taint that was absent has time %v, want a later one than %v", got, first[0].TimeAdded)
	}
	d.unharmed(t)
}

func untimed(key string) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

func timed(key string, at metav1.Time) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &at}
}

// testDriver is a DRA driver with one device.
type testDriver struct {
	client     kubernetes.Interface
	controller *resourceslice.Controller

	mutex  sync.Mutex
	errors []error
}

const driverName = "published.example.com"

func startDriver(t *testing.T, c kubernetes.Interface, taints ...resourceapi.DeviceTaint) *testDriver {
	t.Helper()
	d := &testDriver{client: c}
	soon := 100 * time.Millisecond
	controller, err := resourceslice.StartController(t.Context(), resourceslice.Options{
		DriverName: driverName, KubeClient: c, Resources: resources(taints), SyncDelay: &soon,
		ErrorHandler: func(_ context.Context, err error, _ string) {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			d.errors = append(d.errors, err)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.controller = controller
	t.Cleanup(func() {
		controller.Stop()
		err := c.ResourceV1().ResourceSlices().DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.driver=" + driverName})
		if err != nil {
			t.Error(err)
		}
	})
	return d
}

func resources(taints []resourceapi.DeviceTaint) *resourceslice.DriverResources {
	return &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"pool": {
		AllNodes: true,
		Slices:   []resourceslice.Slice{{Devices: []resourceapi.Device{{Name: "gpu-a", Taints: taints}}}},
	}}}
}

func (d *testDriver) publish(taints ...resourceapi.DeviceTaint) {
	d.controller.Update(resources(taints))
}

// published waits until the device has n taints and returns them.
func (d *testDriver) published(t *testing.T, n int) (taints []resourceapi.DeviceTaint) {
	t.Helper()
	eventually(t, "the driver publishes", func(ctx context.Context) (bool, error) {
		list, err := d.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + driverName})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}
		taints = list.Items[0].Spec.Devices[0].Taints
		return len(taints) == n, nil
	})
	return taints
}

func (d *testDriver) unharmed(t *testing.T) {
	t.Helper()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, err := range d.errors {
		if dropped := (*resourceslice.DroppedFieldsError)(nil); errors.As(err, &dropped) {
			t.Errorf("the driver was told that fields were dropped: %v\nwanted %+v\ngot    %+v",
				err, dropped.DesiredSlice.Spec.Devices, dropped.ActualSlice.Spec.Devices)
			continue
		}
		t.Errorf("the driver could not publish: %v", err)
	}
}
