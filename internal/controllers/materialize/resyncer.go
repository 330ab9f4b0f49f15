package materialize

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// The defaults of [ResyncOptions], and the pace of touches.
const (
	DefaultInterval = time.Second
	DefaultDelay    = time.Second
	DefaultPools    = 100.0
	// maxPause is the longest time between two touches of a pool that do not help.
	maxPause = time.Minute
)

// ResyncOptions configure a [Resyncer].
type ResyncOptions struct {
	View slicemerge.View
	// Mode is Materialize or Restore.
	Mode slicemerge.Mode
	// Touch sends a touch.
	Touch func(ctx context.Context, touch Touch) error
	// Acceptable says why an API server would refuse a merged slice; nil refuses none.
	Acceptable func(published, merged *resourceapi.ResourceSlice) error
	// Elsewhere returns what else applies patches, or "": with Materialize nothing is
	// touched then. It may be nil.
	Elsewhere func(ctx context.Context, now time.Time) (string, error)
	// Originals may be nil.
	PoolOriginals *slicemerge.PoolOriginals
	// Interval is how often the view is looked at, DefaultInterval if zero.
	Interval time.Duration
	// Delay is how long a slice differs before it is touched, DefaultDelay if zero: the
	// webhook's replicas have to learn of a patch, too.
	Delay time.Duration
	// PoolsPerSecond is the largest number of pools that are touched, DefaultPools if zero.
	// There are fewer while the API server answers slowly.
	PoolsPerSecond float64
	Metrics        *ResyncMetrics
	Logger         logr.Logger
}

// A Resyncer writes the slices, without a change, that are not what patches make of them:
// admission then merges them. Where a slice lacks its record, as no webhook remembered what its
// driver had said, it writes that. All slices of a pool are touched together, since drivers
// write a pool again when several of its slices have changed.
type Resyncer struct {
	options  ResyncOptions
	limiter  *rate.Limiter
	window   window
	verdicts map[string]*verdict
	pauses   map[slicemerge.Pool]pause
	state    atomic.Pointer[State]
	// elsewhere is what Elsewhere said when it was asked last.
	elsewhere string
	asked     time.Time
}

// A verdict is what was found of a slice.
type verdict struct {
	stored *resourceapi.ResourceSlice
	result any
	// known is the version of what was known of its pool.
	known   uint64
	differs bool
	// recovered is the text of the record that the slice lacks.
	recovered string
	since     time.Time
	count     record.Count
	patches   patchStates
}

type pause struct {
	until  time.Time
	length time.Duration
}

// NewResyncer makes a resyncer.
func NewResyncer(options ResyncOptions) *Resyncer {
	if options.Interval <= 0 {
		options.Interval = DefaultInterval
	}
	if options.Delay <= 0 {
		options.Delay = DefaultDelay
	}
	if options.PoolsPerSecond <= 0 {
		options.PoolsPerSecond = DefaultPools
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	return &Resyncer{options: options, limiter: rate.NewLimiter(rate.Limit(options.PoolsPerSecond), 1), verdicts: map[string]*verdict{}, pauses: map[slicemerge.Pool]pause{}}
}

// Run touches until ctx ends.
func (r *Resyncer) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.options.View.HasSyncedChecker().Done():
	}
	ticker := time.NewTicker(r.options.Interval)
	defer ticker.Stop()
	for {
		r.reconcile(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// reconcile touches the pools that differ, as far as the rate allows.
func (r *Resyncer) reconcile(ctx context.Context, now time.Time) {
	r.ask(ctx, now)
	view := r.options.View.Snapshot()
	differing := r.differing(view, now)
	if state, was := r.sum(view), r.state.Load(); was == nil || was.View != view || !reflect.DeepEqual(state, was) {
		r.state.Store(state)
	}
	for pool := range r.pauses {
		if differing[pool] == nil {
			delete(r.pauses, pool)
		}
	}
	if r.elsewhere == "" {
		r.touchAll(ctx, differing, now)
	}
}

// touchAll touches the pools that are due, as many at a time as the window allows, for at
// most an interval: then the view is newer.
func (r *Resyncer) touchAll(ctx context.Context, differing map[slicemerge.Pool][]string, now time.Time) {
	limited, cancel := context.WithTimeout(ctx, r.options.Interval)
	defer cancel()
	running, answers := 0, make(chan answer, mostAtOnce)
	defer func() {
		for ; running > 0; running-- {
			r.window.answered(<-answers)
		}
	}()
	for _, pool := range r.due(differing, now) {
		for ; running >= r.window.allows(); running-- {
			r.window.answered(<-answers)
		}
		if r.limiter.Wait(limited) != nil {
			return
		}
		running++
		touches := r.touches(differing[pool])
		go func() { answers <- r.touch(ctx, pool, touches) }()
		length := min(max(2*r.pauses[pool].length, 2*r.options.Delay), maxPause)
		r.pauses[pool] = pause{now.Add(length), length}
	}
}

// due returns the pools to touch, first those that were touched the least without success.
func (r *Resyncer) due(differing map[slicemerge.Pool][]string, now time.Time) (pools []slicemerge.Pool) {
	for pool, names := range differing {
		if !now.Before(r.pauses[pool].until) && !slices.ContainsFunc(names, func(name string) bool { return now.Sub(r.verdicts[name].since) < r.options.Delay }) {
			pools = append(pools, pool)
		}
	}
	slices.SortFunc(pools, func(a, b slicemerge.Pool) int {
		return cmp.Or(cmp.Compare(r.pauses[a].length, r.pauses[b].length), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return pools
}

// An answer is how long the slowest update of a pool took, and whether one failed.
type answer struct {
	took   time.Duration
	failed bool
}

func (r *Resyncer) touches(names []string) (touches []Touch) {
	for _, name := range names {
		v := r.verdicts[name]
		touches = append(touches, Touch{Slice: name, Record: v.recovered, Version: v.stored.ResourceVersion})
	}
	return touches
}

func (r *Resyncer) touch(ctx context.Context, pool slicemerge.Pool, touches []Touch) (a answer) {
	for _, touch := range touches {
		begin := time.Now()
		err := r.options.Touch(ctx, touch)
		a.took = max(a.took, time.Since(begin))
		r.options.Metrics.touched(err)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			a.failed = true
			r.options.Logger.Error(err, "Cannot update a ResourceSlice", "slice", touch.Slice, "driver", pool.Driver, "pool", pool.Name)
		}
	}
	return a
}

// differing checks the changes, and returns the slices that differ from their patched form, by
// their pools.
func (r *Resyncer) differing(view *tracker.Snapshot, now time.Time) map[slicemerge.Pool][]string {
	next := make(map[string]*verdict, len(r.verdicts))
	differing := map[slicemerge.Pool][]string{}
	for stored := range view.StoredSlices() {
		pool := slicemerge.PoolOf(stored)
		version := r.options.PoolOriginals.Version(pool)
		result := view.Patched(stored.Name)
		v := r.verdicts[stored.Name]
		if r.options.Mode == slicemerge.Materialize && view.Unfinished(stored.Name) {
			if v != nil {
				next[stored.Name] = v // it is not known what the slice should be
			}
			continue
		}
		if v == nil || v.stored != stored || v.result != any(result) || v.known != version {
			was := v
			v = r.verdict(view, stored, r.options.PoolOriginals.Of(pool), now)
			v.known = version
			if was != nil && was.differs && v.differs && was.stored == stored {
				v.since = was.since
			}
			r.changed(pool, now)
		}
		next[stored.Name] = v
		if v.differs {
			differing[pool] = append(differing[pool], stored.Name)
		}
	}
	r.verdicts = next
	return differing
}

// changed lets a pool that was touched without success be touched again. What was touched
// together can come into the view slice by slice, so that takes as long as for a new difference.
func (r *Resyncer) changed(pool slicemerge.Pool, now time.Time) {
	if p, is := r.pauses[pool]; is {
		r.pauses[pool] = pause{until: slices.MinFunc([]time.Time{p.until, now.Add(r.options.Delay)}, time.Time.Compare)}
	}
}

func (r *Resyncer) verdict(view *tracker.Snapshot, stored *resourceapi.ResourceSlice, known record.Originals, now time.Time) *verdict {
	result := view.Patched(stored.Name)
	v := &verdict{stored: stored, result: result, since: now}
	var err error
	if v.recovered, err = record.Recover(stored, known, now); err != nil {
		r.options.Logger.Error(err, "Cannot recover the recorded values of a driver", "slice", stored.Name, "driver", stored.Spec.Driver, "pool", stored.Spec.Pool.Name)
	}
	if v.recovered != "" {
		stored = record.With(stored, v.recovered)
	}
	written, err := record.Read(record.Write{Incoming: stored, Old: stored, Known: known, Now: now})
	v.differs = err != nil || v.recovered != ""
	if r.options.Mode != slicemerge.Materialize {
		result = nil
	}
	if result != nil && !record.SameDevices(written.Slice, result.Published) {
		result = r.apply(view, written.Slice)
	}
	merged := written.Merge(result, func(slice *resourceapi.ResourceSlice) error {
		if r.options.Acceptable == nil {
			return nil
		}
		return r.options.Acceptable(written.Slice, slice)
	})
	own, _ := record.OriginalsOf(stored)
	v.count = own.Count()
	v.differs = v.differs || !record.SameDevices(stored, merged.Slice) || !own.SameInForce(merged.Originals)
	v.patches = statesOf(result, own, merged, v.differs)
	return v
}

// State sums up where slices are.
type State struct {
	// View has the slices.
	View *tracker.Snapshot
	// Slices hold a value of ours, Differing are not what they should be, Waiting hold none
	// but their driver may still write one.
	Slices, Differing, Waiting int
	// Elsewhere returns what else applies patches, so that nothing is written.
	Elsewhere string
	patches   patchStates
}

// A PatchState is what is still to be done about a patch.
type PatchState struct {
	// Differing are the slices that do not have it yet, Left those that still have it although they should not.
	Differing, Left int
	// Refused are the slices that are published without it, Why the reason for one.
	Refused int
	Why     string
	// Blocked are the devices without a part of it, What the part in one.
	Blocked int
	What    string
	// Values is the number of its values that slices have, or should have.
	Values int
	// Elsewhere is that of the State.
	Elsewhere string
}

// add adds the state in other slices. Of two texts the smaller one stays, so that the order of slices does not matter.
func (p *PatchState) add(other PatchState) {
	p.Differing, p.Left = p.Differing+other.Differing, p.Left+other.Left
	p.Refused, p.Why = p.Refused+other.Refused, smaller(p.Why, other.Why)
	p.Blocked, p.What = p.Blocked+other.Blocked, smaller(p.What, other.What)
	p.Values += other.Values
}

// smaller returns the smaller text that is not empty.
func smaller(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// patchStates are those of patches, by name.
type patchStates map[string]*PatchState

func (s patchStates) of(name string) *PatchState {
	if s[name] == nil {
		s[name] = &PatchState{}
	}
	return s[name]
}

// statesOf returns the states in one slice, of which originals are stored: result is what patches make of it.
func statesOf(result *patch.Result, originals record.Originals, merged record.Merged, differs bool) patchStates {
	states := patchStates{}
	wanted := patchesOf(result, nil)
	for _, name := range patchesOf(result, originals) {
		p := states.of(name)
		switch {
		case differs && slices.Contains(wanted, name):
			p.Differing++
		case differs:
			p.Left++
		}
		if merged.Refused != nil {
			p.add(PatchState{Refused: 1, Why: merged.Refused.Error()})
		}
	}
	for name, n := range valuesOf(merged.Originals) {
		states.of(name).Values += n
	}
	for _, b := range merged.Blocked {
		states.of(b.Patch).add(PatchState{Blocked: 1, What: fmt.Sprintf("%s in device %s: %s", b.Name, b.Device, b.Reason)})
	}
	return states
}

// State returns what was found last, nil before.
func (r *Resyncer) State() *State { return r.state.Load() }

// Patch returns what is to be done about a patch.
func (s *State) Patch(name string) PatchState {
	p := PatchState{Elsewhere: s.Elsewhere}
	if in := s.patches[name]; in != nil {
		p.add(*in)
	}
	return p
}

func (r *Resyncer) sum(view *tracker.Snapshot) *State {
	s := &State{View: view, Elsewhere: r.elsewhere, patches: patchStates{}}
	for _, v := range r.verdicts {
		if v.count.InForce > 0 {
			s.Slices++
		}
		if v.count.Waiting > 0 {
			s.Waiting++
		}
		if v.differs {
			s.Differing++
		}
		for name, p := range v.patches {
			s.patches.of(name).add(*p)
		}
	}
	r.options.Metrics.set(s)
	return s
}

// The times of an answer of the API server from which a [window] opens or closes.
const (
	fastAnswer = 300 * time.Millisecond
	slowAnswer = time.Second
	// mostAtOnce is the largest number of pools that are updated concurrently.
	mostAtOnce = 8
)

// A window is how many pools may be updated concurrently. It grows by one for each round of
// fast answers and halves with a slow or failed one, like the congestion window of TCP, so
// that updates leave a busy API server alone. The zero value allows one.
type window struct{ size float64 }

func (w *window) allows() int { return max(1, int(w.size)) }

// answered takes an answer into account.
func (w *window) answered(a answer) {
	w.size = max(w.size, 1)
	switch {
	case a.failed || a.took > slowAnswer:
		w.size = max(1, w.size/2)
	case a.took < fastAnswer:
		w.size = min(mostAtOnce, w.size+1/w.size)
	}
}

// ask finds out, from time to time, whether patches are applied elsewhere. What was found
// last counts while that cannot be known.
func (r *Resyncer) ask(ctx context.Context, now time.Time) {
	if r.options.Elsewhere == nil || r.options.Mode != slicemerge.Materialize || !r.asked.IsZero() && now.Sub(r.asked) < slicemerge.AskElsewhere {
		return
	}
	r.asked = now
	said, err := r.options.Elsewhere(ctx, now)
	if err != nil {
		if ctx.Err() == nil {
			r.options.Logger.Error(err, "Cannot read whether a scheduler applies patches")
		}
		return
	}
	if said != r.elsewhere {
		if said != "" {
			r.options.Logger.Error(nil, "Slices are not written: "+said)
		} else {
			r.options.Logger.Info("Slices are written again: no scheduler applies patches")
		}
	}
	r.elsewhere = said
}
