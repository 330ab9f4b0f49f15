//go:build unix

package tracker

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// devicesPerSlice is what nodes with many partitioned devices publish.
const devicesPerSlice = 64

// nSlices is how many slices the benchmarks have; TRACKER_SLICES sets another number.
func nSlices() int {
	if n, err := strconv.Atoi(os.Getenv("TRACKER_SLICES")); err == nil {
		return n
	}
	return 1000
}

// filled makes a subject whose informers have slices, and rules of another driver, which
// match none.
func filled(slices, rules int) *subject {
	return filledWith(slices, rules, "another.example.com")
}

// filledWith has rules of a driver for devices that it does not have.
func filledWith(slices, rules int, driver string) *subject {
	s := newSubject()
	for i := range slices {
		if err := s.slices.indexer.Add(resourceSlice(i, devicesPerSlice)); err != nil {
			panic(err)
		}
	}
	for i := range rules {
		if err := s.rules.indexer.Add(elsewhere(i, driver)); err != nil {
			panic(err)
		}
	}
	return s
}

func elsewhere(i int, driver string) *resourceapi.DeviceTaintRule {
	device := "elsewhere-" + strconv.Itoa(i)
	return rule("elsewhere-"+strconv.Itoa(i), &resourceapi.DeviceTaintSelector{Driver: &driver, Device: &device})
}

// both runs a benchmark for both trackers.
func both(b *testing.B, name string, run func(b *testing.B, start func(*subject, testing.TB))) {
	for _, implementation := range names() {
		b.Run(name+"/"+implementation, func(b *testing.B) {
			b.ReportAllocs()
			run(b, implementations()[implementation])
		})
	}
}

// cpu reports the processor time per operation, which says more than the wall clock on a
// machine that does other things.
func cpu(b *testing.B) func() {
	before := processorTime()
	return func() {
		b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-us/op")
	}
}

// BenchmarkBuild starts a tracker on informers that have everything: index and first
// view.
func BenchmarkBuild(b *testing.B) {
	for _, r := range []int{0, 10, 100, 1000} {
		both(b, fmt.Sprintf("rules=%d", r), func(b *testing.B, start func(*subject, testing.TB)) {
			s := filled(nSlices(), r)
			slices := s.slices.indexer.List()
			b.ResetTimer()
			var spent time.Duration
			for range b.N {
				b.StopTimer()
				s.slices = newInformer()
				for _, slice := range slices {
					if err := s.slices.indexer.Add(slice); err != nil {
						b.Fatal(err)
					}
				}
				s.rules.handlers = nil
				runtime.GC() // what the preparation has left counts for neither
				b.StartTimer()
				before := processorTime()
				start(s, b)
				s.flush()
				spent += processorTime() - before
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkRule adds a rule to a tracker that runs; what it undoes is not counted.
func BenchmarkRule(b *testing.B) {
	driver, pool, device := "driver-0.example.com", "node-0", "device-3"
	for _, tt := range []struct {
		name     string
		selector resourceapi.DeviceTaintSelector
	}{
		{"device", resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool, Device: &device}},
		{"driver", resourceapi.DeviceTaintSelector{Driver: &driver}},
		{"device-of-each-slice", resourceapi.DeviceTaintSelector{Device: &device}},
		{"all", resourceapi.DeviceTaintSelector{}},
	} {
		for _, r := range []int{0, 10, 100, 1000} {
			both(b, fmt.Sprintf("%s/rules=%d", tt.name, r), func(b *testing.B, start func(*subject, testing.TB)) {
				s := filled(nSlices(), r)
				start(s, b)
				s.flush()
				runtime.GC() // as above
				b.ResetTimer()
				var spent time.Duration
				for range b.N {
					before := processorTime()
					s.rules.set(rule("new", &tt.selector))
					s.flush()
					b.StopTimer()
					spent += processorTime() - before
					s.rules.remove("new", false)
					s.flush()
					runtime.GC()
					b.StartTimer()
				}
				b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-us/op")
			})
		}
	}
}

// BenchmarkSliceUpdate changes one slice that no rule matches, store included.
func BenchmarkSliceUpdate(b *testing.B) {
	for _, r := range []int{0, 10, 100, 1000} {
		sliceUpdate(b, fmt.Sprintf("rules=%d", r), r, "another.example.com")
	}
	sliceUpdate(b, "rules=100-of-its-driver", 100, "driver-0.example.com")
}

func sliceUpdate(b *testing.B, name string, rules int, driver string) {
	both(b, name, func(b *testing.B, start func(*subject, testing.TB)) {
		s := filledWith(nSlices(), rules, driver)
		start(s, b)
		versions := [2]*resourceapi.ResourceSlice{resourceSlice(0, devicesPerSlice), resourceSlice(0, devicesPerSlice)}
		versions[1].ResourceVersion = "2"
		s.flush()
		runtime.GC() // as above
		b.ResetTimer()
		report := cpu(b)
		for i := range b.N {
			s.slices.set(versions[i%2])
			s.flush()
		}
		report()
	})
}

// counter counts events.
type counter struct{ n atomic.Int64 }

func (c *counter) OnAdd(any, bool)   {}
func (c *counter) OnUpdate(_, _ any) { c.n.Add(1) }
func (c *counter) OnDelete(any)      {}

// BenchmarkStatus writes the status of one of six rules, as the in-tree eviction
// controller does every ten seconds, and counts the events that this gives.
func BenchmarkStatus(b *testing.B) {
	both(b, "rules=6", func(b *testing.B, start func(*subject, testing.TB)) {
		s := filled(1, 0)
		for i := range 6 {
			s.rules.set(rule("rule-"+strconv.Itoa(i), &resourceapi.DeviceTaintSelector{}))
		}
		start(s, b)
		var events counter
		s.handle(&events)
		b.ResetTimer()
		for i := range b.N {
			written := rule("rule-3", &resourceapi.DeviceTaintSelector{})
			written.ResourceVersion = strconv.Itoa(i)
			s.rules.set(written)
			s.flush()
		}
		b.ReportMetric(float64(events.n.Load())/float64(b.N), "events/op")
	})
}

// BenchmarkMemory reports what a slice costs beside the object that the informer has: in
// the index, and when one of its devices is tainted.
func BenchmarkMemory(b *testing.B) {
	both(b, "slice", func(b *testing.B, start func(*subject, testing.TB)) {
		for range b.N {
			s := filled(nSlices(), 0)
			raw := live()
			start(s, b)
			s.flush()
			index := live()
			device := "device-3"
			s.rules.set(rule("new", &resourceapi.DeviceTaintSelector{Device: &device}))
			s.flush()
			tainted := live()
			n := float64(nSlices())
			b.ReportMetric((index-raw)/n, "index-B/slice")
			b.ReportMetric((tainted-index)/n, "tainted-B/slice")
			runtime.KeepAlive(s)
		}
	})
}

func live() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkPatch adds a patch with a CEL selector that looks at every device; upstream
// has no row of upstream.
func BenchmarkPatch(b *testing.B) {
	b.ReportAllocs()
	s := filled(nSlices(), 0)
	patches := newInformer()
	t := tracker.New(tracker.Options{Sources: tracker.Sources{Slices: s.slices, Patches: patches}})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- t.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-t.HasSyncedChecker().Done()
	value := "blue"
	b.ResetTimer()
	report := cpu(b)
	for i := range b.N {
		expression := fmt.Sprintf(`device.attributes[device.driver].attribute0.startsWith("value") && %d >= 0`, i)
		patches.set(&v1alpha1.ResourceSlicePatch{
			ObjectMeta: metav1.ObjectMeta{Name: "patch", UID: "1", Generation: int64(i)},
			Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
				Filter:     &v1alpha1.DevicePatchFilter{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}},
				Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{"example.com/color": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &value}}},
			}},
		})
		if err := t.Flush(ctx); err != nil {
			b.Fatal(err)
		}
	}
	report()
	b.ReportMetric(float64(nSlices()*devicesPerSlice), "devices")
}
