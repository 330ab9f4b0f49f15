package patch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// fullSlice is as large as a slice can be: 128 devices with 32 attributes each.
func fullSlice() *resourceapi.ResourceSlice {
	s := slice()
	for i := range resourceapi.ResourceSliceMaxDevices {
		attributes := full(maxNames - 1)
		attributes["model"] = str(fmt.Sprint("m", i%2))
		s.Spec.Devices = append(s.Spec.Devices, device(fmt.Sprint("d", i), attributes))
	}
	return s
}

// compare measures apply and a plain copy of the slice alternately, so that the ratio of
// their medians is stable on a busy machine.
func compare(b *testing.B, s *resourceapi.ResourceSlice, apply func()) {
	var ours, copies []time.Duration
	for b.Loop() {
		start := time.Now()
		s.DeepCopy()
		between := time.Now()
		apply()
		ours, copies = append(ours, time.Since(between)), append(copies, between.Sub(start))
	}
	slices.Sort(ours)
	slices.Sort(copies)
	median := float64(ours[len(ours)/2])
	b.ReportMetric(median/1e3, "µs")
	b.ReportMetric(float64(copies[len(copies)/2])/1e3, "µs-DeepCopy")
	b.ReportMetric(float64(copies[len(copies)/2])/median, "times-as-fast")
	b.ReportMetric(testing.AllocsPerRun(10, apply), "allocs")
}

// BenchmarkApply compares applying patches to a full slice with a plain copy of it.
func BenchmarkApply(b *testing.B) {
	s := fullSlice()
	one := "d7"
	kinds := []struct {
		name   string
		filter *v1alpha1.DevicePatchFilter
	}{
		{"all devices", nil},
		{"one device", &v1alpha1.DevicePatchFilter{Device: &one}},
		{"expression", celOf(`device.attributes["gpu.example.com"].model == "m1"`)},
	}
	for _, kind := range kinds {
		for _, n := range []int{1, 10, 100} {
			var objects []*v1alpha1.ResourceSlicePatch
			for i := range n {
				name := resourceapi.FullyQualifiedName(fmt.Sprintf("gpu.example.com/a%d", i%(maxNames-1)))
				objects = append(objects, object(fmt.Sprint("p", i), i, spec{Filter: kind.filter, Attributes: attrs{name: set(str("patched"))}}))
			}
			patches := compile(objects...)
			b.Run(fmt.Sprintf("%s/%d patches", kind.name, n), func(b *testing.B) {
				compare(b, s, func() { Apply(s, patches) })
			})
			if kind.name == "expression" && n == 10 {
				e := NewEvaluation(s)
				b.Run("expression remembered/10 patches", func(b *testing.B) {
					compare(b, s, func() {
						matches := make([]Match, 0, n)
						for _, p := range patches {
							matches = append(matches, matchOf(p, e))
						}
						mergeMatches(s, matches)
					})
				})
			}
		}
	}
}
