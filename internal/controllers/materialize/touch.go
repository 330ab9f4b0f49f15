package materialize

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/serving/metric"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// FieldManager names the resyncer to the API server.
const FieldManager = "dra-steward-materialize"

// A Touch is a write of a slice that changes none of its devices.
type Touch struct {
	// Slice is its name.
	Slice string
	// Record is the text of the record to store with it, for the slice of Version and no
	// other one; empty leaves the record as it is.
	Record, Version string
}

// body is the JSON merge patch that sends a touch.
func (t Touch) body() ([]byte, error) {
	if t.Record == "" {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": t.Version, "annotations": map[string]string{record.Annotation: t.Record}}})
}

// NewTouch returns a function that sends touches: admission runs, and if it changes nothing,
// nothing is written. It needs the verb patch.
func NewTouch(config *rest.Config) (func(ctx context.Context, touch Touch) error, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for ResourceSlices: %w", err)
	}
	return func(ctx context.Context, touch Touch) error {
		body, err := touch.body()
		if err != nil {
			return err
		}
		_, err = client.ResourceV1().ResourceSlices().Patch(ctx, touch.Slice, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
		return err
	}, nil
}

// apply applies the patches of a view to what a driver said, where that is known better
// than from the slice alone.
func (r *Resyncer) apply(view *tracker.Snapshot, slice *resourceapi.ResourceSlice) *patch.Result {
	var set patch.Set
	for object := range view.Patches() {
		var class *resourceapi.DeviceClass
		if f := object.Spec.Devices.Filter; f != nil && f.DeviceClassName != nil {
			class = view.Class(*f.DeviceClassName)
		}
		set.Put(object, class)
	}
	return set.Apply(slice)
}

// patchesOf are the names of the patches that have to do with a slice, or had.
func patchesOf(result *patch.Result, originals record.Originals) []string {
	names := map[string]bool{}
	if result != nil {
		for _, m := range result.Matches() {
			if m.Devices > 0 {
				names[m.Patch.Object.Name] = true
			}
		}
	}
	for _, device := range originals {
		for _, e := range device.Entries {
			if e.InForce() {
				names[e.Patch] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// valuesOf counts the values of each patch.
func valuesOf(originals record.Originals) map[string]int {
	values := map[string]int{}
	for _, device := range originals {
		for _, e := range device.Entries {
			if e.InForce() {
				values[e.Patch]++
			}
		}
	}
	return values
}

// ResyncMetrics count touches, and the slices that wait for one. A nil one counts nothing.
type ResyncMetrics struct {
	touches *prometheus.CounterVec
	slices  *prometheus.GaugeVec
	left    prometheus.Gauge
}

// NewResyncMetrics registers the metrics. It fails if their names are registered already.
func NewResyncMetrics(registerer prometheus.Registerer) (*ResyncMetrics, error) {
	all := metric.For(registerer)
	m := &ResyncMetrics{
		touches: all.Counters("dra_steward_materialize_touches_total",
			"Empty updates of ResourceSlices that do not match the patches, by result.", "result"),
		slices: all.Gauges("dra_steward_materialize_slices",
			"ResourceSlices by state: patched (have patched values), differing (do not match the patches yet), waiting (restored, but their driver can still publish a patched value).", "state"),
		left: all.Gauge("dra_steward_materialize_unrecorded",
			"Pools, in parts of 128 devices, whose original values do not fit into the ConfigMaps: they are kept in memory only."),
	}
	return m, all.Err()
}

func (m *ResyncMetrics) touched(err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.touches.WithLabelValues(result).Inc()
}

func (m *ResyncMetrics) unrecorded(n int) {
	if m != nil {
		m.left.Set(float64(n))
	}
}

func (m *ResyncMetrics) set(s *State) {
	if m == nil {
		return
	}
	m.slices.WithLabelValues("patched").Set(float64(s.Slices))
	m.slices.WithLabelValues("differing").Set(float64(s.Differing))
	m.slices.WithLabelValues("waiting").Set(float64(s.Waiting))
}
