package capacitymetrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// cluster has a node with eight GPUs, of which one is held and one tainted, one node that is
// not ready with two, and a NIC that has no class.
func cluster() capacity.Cluster {
	slice := func(driver, node string, n int) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + node}}
		s.Spec = resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
		for i := range n {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("device-", i)})
		}
		return s
	}
	gpus := slice("gpu.example.com", "node-1", 8)
	gpus.Spec.Devices[7].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "device-0"}}}}
	ready := func(name string, status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	return capacity.Cluster{
		View:   tracker.Merge(gpus, slice("gpu.example.com", "node-2", 2), slice("nic.example.com", "node-1", 1), class),
		Claims: []*resourceapi.ResourceClaim{claim},
		Nodes:  []*corev1.Node{ready("node-1", corev1.ConditionTrue), ready("node-2", corev1.ConditionFalse)},
	}
}

// scraped are the series that are not 0, without the duration.
func scraped(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if m.Gauge.GetValue() == 0 || strings.HasSuffix(family.GetName(), "_duration_seconds") {
				continue
			}
			line := strings.TrimPrefix(family.GetName(), "dra_steward_capacity_")
			for _, label := range m.Label {
				line += " " + label.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.Gauge.GetValue()))
		}
	}
	return lines
}

// TestRun: nothing is shown before the cluster is read, the numbers are those of capacity, they
// are renewed each minute, a failure keeps them with their time, and the end removes them.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		metrics, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		now, synced := cluster(), errors.New("nodes are not synced yet")
		failures := 0
		log := funcr.New(func(_, text string) { failures++; t.Log(text) }, funcr.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		counts, mutex := 0, sync.Mutex{} // of synced, now and counts
		locked := func(f func()) {
			mutex.Lock()
			defer mutex.Unlock()
			f()
		}
		controller := New(Options{Metrics: metrics, Logger: log,
			Ready:   func() (err error) { locked(func() { err = synced }); return err },
			Cluster: func() (c capacity.Cluster) { locked(func() { counts++; c = now }); return c }})
		go func() { done <- controller.Run(ctx) }()
		synctest.Wait()
		if got := scraped(t, registry); len(got) > 0 {
			t.Errorf("before the cluster is read: %q", got)
		}
		locked(func() { synced = nil })
		<-time.After(retry + time.Millisecond)
		at := fmt.Sprint("last_success_timestamp_seconds ", float64(time.Now().Add(-time.Millisecond).UnixMilli())/1000)
		want := []string{
			"class_devices gpu allocatable 6", "class_devices gpu held 1", "class_devices gpu tainted 1", "class_devices gpu unreachable 2",
			"devices gpu.example.com allocatable 6", "devices gpu.example.com held 1", "devices gpu.example.com tainted 1", "devices gpu.example.com unreachable 2",
			"devices nic.example.com allocatable 1",
			"fits gpu 1 6", "fits gpu 2 3", "fits gpu 4 1", at,
		}
		if got := scraped(t, registry); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
			t.Errorf("%v, %v", problems, err)
		}
		locked(func() { now.Claims = nil })
		<-time.After(period)
		var counted int
		locked(func() { counted = counts })
		if got := strings.Join(scraped(t, registry), "\n"); !strings.Contains(got, "fits gpu 1 7") || counted != 2 {
			t.Errorf("a minute later, after %d counts: %s", counted, got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := scraped(t, registry); len(got) > 0 || failures > 0 {
			t.Errorf("after the end: %q; %d failures in the log", got, failures)
		}
	})
}

// TestNext: a count that takes long is followed by a pause of nineteen times as long. One that
// takes too long keeps the last numbers, and is logged once.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics, err := NewMetrics(prometheus.NewPedanticRegistry())
		if err != nil {
			t.Fatal(err)
		}
		failures, takes := 0, 10*time.Second
		log := funcr.New(func(_, text string) { failures++; t.Log(text) }, funcr.Options{})
		c := New(Options{Ready: func() error { return nil }, Metrics: metrics, Logger: log, Cluster: func() capacity.Cluster {
			<-time.After(takes)
			return cluster()
		}})
		if wait := c.next(t.Context()); wait != 190*time.Second || metrics.last.Load() == nil {
			t.Errorf("after %s waits %s", takes, wait)
		}
		before := metrics.last.Load()
		takes = limit + time.Second
		for range 2 {
			if wait := c.next(t.Context()); wait != 19*takes || metrics.last.Load() != before {
				t.Errorf("after %s waits %s", takes, wait)
			}
		}
		if failures != 1 {
			t.Errorf("%d lines in the log", failures)
		}
		takes = 0
		if wait := c.next(t.Context()); wait != period || metrics.last.Load() == before || c.said != "" {
			t.Errorf("waits %s, said %q", wait, c.said)
		}
	})
}

// TestSeriesAreBounded: drivers beyond the largest are added up, and younger classes are left out.
func TestSeriesAreBounded(t *testing.T) {
	var objects []any
	for i := range maxRows + 20 {
		name := fmt.Sprintf("driver-%03d.example.com", i)
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: name, AllNodes: new(true), Pool: resourceapi.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1}}
		for j := range 1 + i%2 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("device-", j)})
		}
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%03d", i), CreationTimestamp: metav1.Unix(int64(-i), 0)}}
		objects = append(objects, slice, class)
	}
	summary, err := capacity.Cluster{View: tracker.Merge(objects...)}.Summarize(t.Context(), maxRows)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	metrics.set(&counted{Summary: summary})
	states := len(states())
	for name, want := range map[string]int{"devices": (maxRows + 1) * states, "class_devices": maxRows * states, "fits": maxRows * len(capacity.Sizes())} {
		if n, err := testutil.GatherAndCount(registry, "dra_steward_capacity_"+name); err != nil || n != want {
			t.Errorf("%s: %d series, want %d; %v", name, n, want, err)
		}
	}
	rest := summary.Drivers[maxRows]
	if rest.Name != "" || rest.Total != 20 || summary.Omitted != 20 || summary.Classes[0].Name != "class-119" {
		t.Errorf("others %+v, %d classes omitted, the oldest is %s", rest, summary.Omitted, summary.Classes[0].Name)
	}
}
