package slicemerge

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// Patches are those of a cluster.
type Patches struct {
	// All yields them.
	All func() iter.Seq[*v1alpha1.ResourceSlicePatch]
	// Known reports whether they have been read.
	Known func() bool
	// Class returns a DeviceClass, or nil.
	Class func(name string) *resourceapi.DeviceClass
}

// A Merger merges patches into slices at admission. It is used by several goroutines.
type Merger struct {
	mode    Mode
	patches Patches
	pools   *PoolOriginals
	metrics *Metrics
	log     logr.Logger
	known   evaluations

	// elsewhere reports that a scheduler applies patches.
	elsewhere atomic.Bool
	stale     atomic.Bool
	// mutex guards what follows.
	mutex    sync.Mutex
	compiler patch.Compiler
	compiled []compiled
}

// compiled is a patch, and the class that it was compiled with.
type compiled struct {
	patch *patch.Patch
	class *resourceapi.DeviceClass
}

// NewMerger makes a merger. pools and metrics may be nil.
func NewMerger(mode Mode, patches Patches, pools *PoolOriginals, metrics *Metrics, log logr.Logger) *Merger {
	m := &Merger{mode: mode, patches: patches, pools: pools, metrics: metrics, log: log}
	m.stale.Store(true)
	return m
}

// Handler notes that patches have changed.
func (m *Merger) Handler() cache.ResourceEventHandler {
	changed := func(any) { m.stale.Store(true) }
	return cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, _ any) { m.stale.Store(true) }, DeleteFunc: changed}
}

// Active reports whether slices without a record are of interest.
func (m *Merger) Active() bool { return m.mode == Materialize || m.mode == Restore }

// Merge returns what is to be stored of a write; old is nil on creation.
func (m *Merger) Merge(ctx context.Context, incoming, old *resourceapi.ResourceSlice, now time.Time, acceptable func(published, merged *resourceapi.ResourceSlice) error) record.Merged {
	mode := m.mode
	if mode == Materialize && m.elsewhere.Load() {
		mode = None
	}
	w := record.Write{Incoming: incoming, Old: old, Known: m.pools.Of(PoolOf(incoming)), Now: now}
	clean := incoming.Annotations[record.Annotation] == "" && len(w.Known) == 0 && (old == nil || old.Annotations[record.Annotation] == "")
	if clean && mode != Materialize {
		return record.Merged{Slice: incoming}
	}
	written, err := record.Read(w)
	if err != nil {
		m.log.Error(err, "Cannot read the recorded values of a driver", "slice", incoming.Name, "pool", incoming.Spec.Pool.Name, "driver", incoming.Spec.Driver)
	}
	fits := func(slice *resourceapi.ResourceSlice) error { return acceptable(written.Slice, slice) }
	var merged record.Merged
	switch {
	case mode != Materialize:
		merged = written.Merge(nil, nil)
	case !m.patches.Known():
		merged = written.Keep(fits)
	default:
		all := m.all()
		evaluation := m.known.take(incoming.Name).Next(written.Slice)
		result, unfinished := evaluation.Apply(ctx, all)
		m.known.put(written.Slice, evaluation, len(all))
		if unfinished == nil {
			merged = written.Merge(&result, fits)
		} else {
			merged = written.Keep(fits)
		}
	}
	if merged.Refused != nil {
		m.log.Error(merged.Refused, "Published without patches", "slice", incoming.Name, "pool", incoming.Spec.Pool.Name, "driver", incoming.Spec.Driver)
	}
	m.metrics.merged(merged, err)
	return merged
}

// all returns the compiled patches.
func (m *Merger) all() []*patch.Patch {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.stale.Swap(false) || m.classChanged() {
		m.compile()
	}
	all := make([]*patch.Patch, len(m.compiled))
	for i := range m.compiled {
		all[i] = m.compiled[i].patch
	}
	return all
}

func (m *Merger) classChanged() bool {
	return slices.ContainsFunc(m.compiled, func(c compiled) bool { return m.classOf(c.patch.Object) != c.class })
}

func (m *Merger) classOf(object *v1alpha1.ResourceSlicePatch) *resourceapi.DeviceClass {
	if f := object.Spec.Devices.Filter; f != nil && f.DeviceClassName != nil {
		return m.patches.Class(*f.DeviceClassName)
	}
	return nil
}

// compile compiles what has changed.
func (m *Merger) compile() {
	before := map[string]compiled{}
	for _, c := range m.compiled {
		before[c.patch.Object.Name] = c
	}
	m.compiled = nil
	for object := range m.patches.All() {
		class := m.classOf(object)
		c, known := before[object.Name]
		if !known || c.class != class || c.patch.Object.UID != object.UID || !equality.Semantic.DeepEqual(c.patch.Object.Spec, object.Spec) {
			c = compiled{m.compiler.Compile(object, class), class}
		}
		m.compiled = append(m.compiled, c)
	}
}

// Metrics count what a merger does. A nil one counts nothing.
type Metrics struct{ merges *prometheus.CounterVec }

// NewMetrics registers the metrics. It fails if their names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{merges: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dra_steward_materialize_merges_total",
		Help: "Writes of ResourceSlices into which patches are merged, by result: published, patched, refused (published without patches, because they would exceed a limit) or unreadable (the original values are lost).",
	}, []string{"result"})}
	return m, registerer.Register(m.merges)
}

func (m *Metrics) merged(merged record.Merged, unreadable error) {
	if m == nil {
		return
	}
	result := "published"
	switch {
	case unreadable != nil:
		result = "unreadable"
	case merged.Refused != nil:
		result = "refused"
	case merged.Originals.Count().InForce > 0:
		result = "patched"
	}
	m.merges.WithLabelValues(result).Inc()
}

// A Mode is how ResourceSlicePatches are written into slices.
type Mode string

const (
	// None leaves slices alone, but for those that still hold a value of ours, which are
	// restored when they are written.
	None Mode = "none"
	// Materialize writes patches into slices.
	Materialize Mode = "materialize"
	// Restore takes back what was written.
	Restore Mode = "restore"
)

// Validate refuses what is no mode; empty is None.
func (m Mode) Validate() error {
	switch m {
	case "", None, Materialize, Restore:
		return nil
	}
	return fmt.Errorf("--patches %q: must be %s, %s or %s", m, None, Materialize, Restore)
}

// keptBytes bounds what is remembered of slices, of which a full one needs almost 1 MB. What
// does not fit is evaluated at each write.
const keptBytes = 32 << 20

// About how much memory a device, an attribute or a capacity needs, and what one patch says of
// a device.
const (
	bytesPerEntry   = 200
	bytesPerVerdict = 4
)

// evaluations remember what expressions say of the devices of slices, by the names of these:
// most writes of a slice change few of its devices. The zero value is ready for use.
type evaluations struct {
	mutex sync.Mutex
	kept  map[string]evaluated
	bytes int
}

type evaluated struct {
	evaluation *patch.Evaluation
	bytes      int
}

// take returns what is known of a slice, and forgets it: an Evaluation is for one goroutine.
func (e *evaluations) take(slice string) *patch.Evaluation {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.remove(slice)
}

func (e *evaluations) remove(slice string) *patch.Evaluation {
	was := e.kept[slice]
	e.bytes -= was.bytes
	delete(e.kept, slice)
	return was.evaluation
}

// put remembers what a number of patches say of a slice.
func (e *evaluations) put(slice *resourceapi.ResourceSlice, evaluation *patch.Evaluation, patches int) {
	bytes := bytesOf(slice, patches)
	if slice.Name == "" || bytes > keptBytes {
		return
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.kept == nil {
		e.kept = map[string]evaluated{}
	}
	e.remove(slice.Name)
	for other := range e.kept { // any: writes come in turn, so that the oldest is needed next
		if e.bytes+bytes <= keptBytes {
			break
		}
		e.remove(other)
	}
	e.kept[slice.Name] = evaluated{evaluation, bytes}
	e.bytes += bytes
}

func bytesOf(slice *resourceapi.ResourceSlice, patches int) int {
	bytes := 0
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		bytes += bytesPerEntry*(1+len(d.Attributes)+len(d.Capacity)) + bytesPerVerdict*patches
	}
	return bytes
}
