package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const multiDriver = "multi.example.com"

// A publisher is a driver that publishes a pool of several slices, with the code that
// drivers publish with.
type publisher struct {
	c          kubernetes.Interface
	controller *resourceslice.Controller

	mutex  sync.Mutex
	errors []error
}

// publish makes a slice of counters, and slices of devices by their names.
func multiPool(slices ...[]string) *resourceslice.DriverResources {
	pool := resourceslice.Pool{AllNodes: true, Slices: []resourceslice.Slice{{SharedCounters: []resourceapi.CounterSet{
		{Name: "memory", Counters: map[string]resourceapi.Counter{"bytes": {Value: resource.MustParse("64Gi")}}}}}}}
	for _, names := range slices {
		var devices []resourceapi.Device
		for _, name := range names {
			devices = append(devices, resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{
				{CounterSet: "memory", Counters: map[string]resourceapi.Counter{"bytes": {Value: resource.MustParse("1Gi")}}}}})
		}
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices})
	}
	return &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"shared": pool}}
}

func (p *publisher) start(t *testing.T, resources *resourceslice.DriverResources) {
	t.Helper()
	soon := 50 * time.Millisecond
	controller, err := resourceslice.StartController(t.Context(), resourceslice.Options{
		DriverName: multiDriver, KubeClient: p.c, Resources: resources, SyncDelay: &soon,
		ErrorHandler: func(_ context.Context, err error, _ string) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.errors = append(p.errors, err)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.controller = controller
}

// published waits until the newest generation of the pool is complete and has exactly
// these devices, and returns the generation.
func (p *publisher) published(t *testing.T, want ...string) (generation int64) {
	t.Helper()
	eventually(t, "the driver publishes "+strings.Join(want, " "), func(ctx context.Context) (bool, error) {
		list, err := p.c.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + multiDriver})
		if err != nil {
			return false, err
		}
		var names []string
		complete := len(list.Items) > 0
		for _, slice := range list.Items {
			generation = slice.Spec.Pool.Generation
			complete = complete && generation == list.Items[0].Spec.Pool.Generation && slice.Spec.Pool.ResourceSliceCount == int64(len(list.Items))
			for _, device := range slice.Spec.Devices {
				names = append(names, device.Name)
			}
		}
		slices.Sort(names)
		return complete && slices.Equal(names, want), nil
	})
	return generation
}

// TestMultiSliceDriver lets a driver publish a pool of several slices, move devices
// between them, take slices away, and start again: it is never denied anything, whatever
// is said about a pool that is half published.
func TestMultiSliceDriver(t *testing.T) {
	g, c, _ := guarded(t, nil)
	p := &publisher{c: c}
	p.start(t, multiPool([]string{"a", "b"}, []string{"c", "d"}))
	t.Cleanup(func() {
		p.controller.Stop()
		err := c.ResourceV1().ResourceSlices().DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.driver=" + multiDriver})
		if err != nil {
			t.Error(err)
		}
	})
	first := p.published(t, "a", "b", "c", "d")

	p.controller.Update(multiPool([]string{"a"}, []string{"b", "c", "d"})) // moved
	second := p.published(t, "a", "b", "c", "d")
	p.controller.Update(multiPool([]string{"a"}, []string{"b"}, []string{"c", "e"}, []string{"d"})) // more slices
	p.published(t, "a", "b", "c", "d", "e")
	p.controller.Update(multiPool([]string{"e", "a", "b"})) // fewer
	third := p.published(t, "a", "b", "e")
	if first > second || second >= third { // devices may move within a generation
		t.Errorf("generations %d, %d, %d: the driver should have gone on to a new one", first, second, third)
	}

	p.controller.Stop()
	p.start(t, multiPool([]string{"e"}, []string{"a", "f"})) // a restart with something else
	p.published(t, "a", "e", "f")

	for _, err := range p.errors {
		if dropped := (*resourceslice.DroppedFieldsError)(nil); !errors.As(err, &dropped) {
			t.Errorf("the driver could not publish: %v", err)
		}
	}
	metrics, err := g.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for line := range strings.Lines(metrics) {
		switch {
		case !strings.HasPrefix(line, "dra_steward_admission_") || !strings.Contains(line, `kind="ResourceSlice"`) && !strings.Contains(line, "errored"):
		case strings.Contains(line, `verdict="denied"`), strings.Contains(line, `verdict="errored"`):
			t.Errorf("not every write passed: %s", line)
		case strings.Contains(line, `endpoint="validate"`):
			var n int
			_, _ = fmt.Sscanf(line[strings.LastIndex(line, " ")+1:], "%d", &n)
			answers += n
		}
	}
	t.Logf("%d writes of slices judged, none denied", answers)
	if answers < 8 {
		t.Errorf("only %d writes of slices were judged", answers)
	}
}
