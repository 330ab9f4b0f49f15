package evictor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Options configure a [Controller].
type Options struct {
	// Client evicts pods and writes the status of rules. Only modes other than
	// [ModeObserve] use it.
	Client kubernetes.Interface
	// Recorder writes events about pods; nil writes none.
	Recorder record.EventRecorder
	// Tracker is the merged view of the devices. The caller runs it.
	Tracker *tracker.Tracker
	// Rules has *resourceapi.DeviceTaintRule. The caller runs it.
	Rules cache.SharedIndexInformer
	// Usage is the index of claims and pods. The caller feeds it; UsageSynced is the
	// result of [usage.Index.Listen], if that feeds it.
	Usage       *usage.Index
	UsageSynced []cache.DoneChecker
	// Mode is [ModeObserve] if empty.
	Mode Mode
	// InTreeDetector detects whether the in-tree controller evicts for rules. [ModeAuto] needs it.
	InTreeDetector InTreeDetector
	// Thresholds are those of the circuit breaker, which pauses the evictions of a rule or
	// driver with a larger impact; nil switches it off.
	Thresholds *guard.Thresholds
	// Journal persists the counts of evicted pods. With nil, a restart recovers the counts
	// in the conditions of rules, and the circuit breaker starts from zero.
	Journal Journal
	// About is the object of events that concern no pod and no rule; nil for none.
	About *corev1.ObjectReference
	// Settings select between possible semantics.
	Settings Semantics
	// ActSince holds evictions for older taints: their pods are counted, not evicted.
	// Zero acts on all taints.
	ActSince time.Time
	// Limits are the rates of evictions.
	Limits Limits
	// Workers is the number of pods that are evicted concurrently, 8 if zero.
	Workers int
	// Metrics may be nil.
	Metrics *Metrics
	// Logger is optional.
	Logger logr.Logger
}

// A Controller evicts pods from tainted devices. Its event handlers queue pods, one
// goroutine decides about them, workers call the API server. The mutex guards maps and
// numbers; it is never held during an API call.
type Controller struct {
	options Options
	view    view
	// scope is replaced with the mutex held, and read without.
	scope atomic.Pointer[scope]
	dirty *workQueue
	// work hands pods that are due to the workers.
	work chan eviction
	// wake holds a token when the queue of evictions has changed.
	wake     chan struct{}
	limiter  *limiter
	statuses *statuses
	// generations belong to the goroutine of the tracker's events.
	generations generations

	mutex   sync.Mutex
	states  *podStates
	breaker breaker
	inTree  inTreeState
	// journaled are the pods that the journal has as the next ones, saved is when it was written.
	journaled map[types.UID]*podState
	saved     time.Time
}

// New returns a controller; [Controller.Run] runs it.
func New(options Options) (*Controller, error) {
	if options.Tracker == nil || options.Rules == nil || options.Usage == nil {
		return nil, errors.New("evictor: Tracker, Rules and Usage are required")
	}
	if options.Mode == "" {
		options.Mode = ModeObserve
	}
	if err := errors.Join(options.Mode.Validate(), options.Settings.Validate(), options.Limits.Validate()); err != nil {
		return nil, fmt.Errorf("evictor: %w", err)
	}
	if options.Client == nil && options.Mode != ModeObserve || options.InTreeDetector == nil && options.Mode == ModeAuto {
		return nil, fmt.Errorf("evictor: mode %s requires a Client; auto also requires an InTreeDetector", options.Mode)
	}
	if options.Workers == 0 {
		options.Workers = 8
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	c := &Controller{
		options: options,
		view:    view{tracker: options.Tracker, rules: options.Rules.GetStore(), seen: &firstSeen{now: time.Now}},
		work:    make(chan eviction),
		wake:    make(chan struct{}, 1),
		limiter: newLimiter(options.Limits),
		states:  newPodStates(),
		breaker: breaker{thresholds: options.Thresholds, warned: map[string]bool{}, tripped: map[pause][]guard.Excess{}},
	}
	c.generations = generations{}
	c.dirty = newWorkQueue(c.changed)
	c.scope.Store(&scope{shares: options.Mode.shares(), since: options.ActSince, confirmed: c.confirmed})
	c.statuses = newStatuses(c)
	return c, nil
}

// Run blocks until ctx ends and all goroutines of the controller have returned. It can be
// called once.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	// Decisions need all claims and pods.
	if !reconcile.WaitFor(ctx, "evictor", c.options.UsageSynced...) {
		return nil
	}
	if !c.recalled(ctx) {
		return nil
	}
	synced, rules, err := c.listen(ctx, &running)
	if err != nil {
		if ctx.Err() != nil { // informers that end with ctx refuse handlers then
			return nil
		}
		return err
	}
	if !reconcile.WaitFor(ctx, "evictor", synced) || c.served() && !reconcile.WaitFor(ctx, "evictor", rules) {
		return nil
	}
	context.AfterFunc(ctx, c.dirty.close)
	running.Go(func() { c.dirty.work(c.decide) })
	running.Go(func() { c.dispatch(ctx) })
	if c.options.Mode != ModeObserve {
		running.Go(func() { c.statuses.run(ctx) })
	}
	if c.options.Mode == ModeAuto {
		running.Go(func() { c.probe(ctx) })
	}
	for range c.options.Workers {
		running.Go(func() { c.runWorker(ctx) })
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) decide(name types.NamespacedName) {
	start := time.Now()
	pod := c.options.Usage.Pod(name.Namespace, name.Name)
	if pod == nil {
		c.locked(func() { c.states.gone(name, start) })
		return
	}
	o := c.scope.Load()
	d := decision{verdict: DecidePod(pod, c.options.Usage, c.view, c.options.Settings, start).ends(), ending: pod.DeletionTimestamp != nil}
	d.plan = o.plan(pod, d.verdict)
	if c.statuses.previewing() {
		d.preview = o.shares.ours(DecidePod(pod, c.options.Usage, c.view.preview(), c.options.Settings, start).ends())
	}
	var came changed
	seen := false
	c.locked(func() {
		came = c.states.decided(name, pod.UID, d, start)
		seen = c.observePod(pod, start)
	})
	if c.scope.Load() != o { // rescope may not have seen this pod yet
		c.dirty.add(name)
	}
	if seen {
		c.learn(func(o *inTreeState) {
			if d.verdict.onlyExtended() {
				o.seenExtended()
			} else {
				o.seen(fromSlices)
			}
		})
	}
	c.options.Metrics.decided(time.Since(start))
	switch came {
	case planned:
		if log := c.options.Logger.V(1); log.Enabled() { // the explanation costs more than the decision
			log.Info("Planned the eviction of a pod", "pod", name, "verdict", d.plan.Explain(start))
		}
	case cancelled:
		c.options.Metrics.cancel()
		c.event(pod, "Cancelling deletion")
	}
}

// rescope changes the scope, with the mutex held, and queues all pods with a state for a new
// decision. It returns false if the scope remains the same.
func (c *Controller) rescope(change func(*scope)) bool {
	var known []types.NamespacedName
	same := false
	c.locked(func() {
		had := c.scope.Load()
		o := *had
		change(&o)
		if same = o.shares == had.shares && o.rulesInTree == had.rulesInTree && o.since.Equal(had.since); !same {
			c.scope.Store(&o)
			known = slices.Collect(maps.Keys(c.states.pods))
		}
	})
	if same {
		return false
	}
	c.dirty.add(known...)
	c.statuses.requeueAll()
	return true
}

// changed wakes the dispatcher and updates the gauges.
func (c *Controller) changed() {
	any := false
	c.locked(func() {
		any = len(c.states.queue)+len(c.breaker.tripped) > 0
		c.updateGauges()
	})
	if any {
		c.wakeUp()
	}
}

// updateGauges is called with the mutex held.
func (c *Controller) updateGauges() {
	c.options.Metrics.pods(c.states.byState, len(c.breaker.paused()))
}

func (c *Controller) wakeUp() { reconcile.Wake(c.wake) }

func (c *Controller) event(pod *corev1.Pod, message string) {
	if c.options.Recorder != nil && c.options.Mode != ModeObserve {
		c.options.Recorder.Event(pod, corev1.EventTypeNormal, eventReason, message)
	}
}

// report records an event about [Options].About.
func (c *Controller) report(kind, reason, message string) {
	if c.options.Recorder != nil && c.options.About != nil && c.options.Mode != ModeObserve {
		c.options.Recorder.Event(c.options.About, kind, reason, message)
	}
}

// verdict returns the verdict on a pod, and the part of it that the controller carries
// out; zero values for a pod without untolerated taints.
func (c *Controller) verdict(pod types.NamespacedName) (verdict, plan Verdict) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known := c.states.of(pod); known != nil {
		d := known.decision()
		return d.verdict, d.plan.Verdict
	}
	return Verdict{}, Verdict{}
}

// tally returns the counts of a rule.
func (c *Controller) tally(rule types.UID) tally {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.states.causes.tally(rule)
}

// listen adds the event handlers. The controller waits for synced, and for rules if the
// API server serves DeviceTaintRules.
func (c *Controller) listen(ctx context.Context, running *sync.WaitGroup) (synced, rules cache.DoneChecker, _ error) {
	handle, err := c.options.Rules.AddEventHandlerWithOptions(handler(c.ruleChanged), cache.HandlerOptions{Logger: &c.options.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("evictor: informer of DeviceTaintRules: %w", err)
	}
	devices := c.options.Tracker.AddEventHandler(handler(c.sliceChanged))
	stop := c.options.Usage.Watch(func(pod types.NamespacedName) { c.dirty.add(pod) })
	running.Go(func() {
		<-ctx.Done()
		stop()
		c.options.Tracker.RemoveEventHandler(devices)
		// The only error: the handler has been removed before.
		_ = c.options.Rules.RemoveEventHandler(handle)
	})
	return devices, handle.HasSyncedChecker(), nil
}

// handler calls changed for all events of a kind, with the object before (nil if it is
// new) and after (nil if it is deleted). For a missed deletion it is the last known state.
func handler[T any](changed func(before, after *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, as[T](object)) },
		UpdateFunc: func(before, after any) { changed(as[T](before), as[T](after)) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if last := as[T](object); last != nil {
				changed(last, nil)
			}
		},
	}
}

func as[T any](object any) *T {
	typed, _ := object.(*T)
	return typed
}

func (c *Controller) sliceChanged(before, after *resourceapi.ResourceSlice) {
	c.dirty.during(func() {
		snapshot := c.options.Tracker.Snapshot()
		c.countDevices(snapshot, before, after)
		for id, d := range changedDevices(before, after) {
			c.view.seen.keep(id, d.after)
			c.dirty.add(c.options.Usage.Concerned(selectorOf(&id), func(r *resourceapi.DeviceRequestAllocationResult) bool {
				return d.matters(r.Tolerations, c.options.Settings)
			})...)
		}
		for _, id := range poolsOf(before, after) {
			if c.generations.changed(snapshot, id) {
				for _, slice := range snapshot.PublishedByPool(id.driver, id.pool) {
					c.countSlice(snapshot, slice)
				}
				pool := resourceapi.DeviceTaintSelector{Driver: &id.driver, Pool: &id.pool}
				c.dirty.add(c.options.Usage.Concerned(&pool, nil)...)
			}
		}
	})
}

// countDevices updates the numbers of devices per driver.
func (c *Controller) countDevices(snapshot *tracker.Snapshot, before, after *resourceapi.ResourceSlice) {
	if before == nil || after == nil || len(before.Spec.Devices) != len(after.Spec.Devices) {
		c.statuses.published.Add(1)
	}
	slice := before
	if after != nil {
		slice = after
	}
	c.countSlice(snapshot, slice)
}

// countSlice updates the numbers of devices of a slice. One that a complete newer generation of its pool replaces has none.
func (c *Controller) countSlice(snapshot *tracker.Snapshot, slice *resourceapi.ResourceSlice) {
	var count driverCount
	if published := snapshot.Published(slice.Name); published != nil && !obsolete(snapshot, published) {
		count = driverCount{driver: published.Spec.Driver, published: len(published.Spec.Devices)}
		for i := range published.Spec.Devices {
			if evicts(published.Spec.Devices[i].Taints) {
				count.tainted++
			}
		}
	}
	var warning string
	c.locked(func() {
		c.breaker.drivers.set(slice.Name, count)
		sum := c.breaker.drivers.of[slice.Spec.Driver]
		warning = c.breaker.warn(slice.Spec.Driver, sum)
		c.options.Metrics.devices(slice.Spec.Driver, sum)
	})
	if warning != "" {
		c.options.Logger.Info("Driver taints many of its devices", "driver", slice.Spec.Driver, "reason", warning)
		c.report(corev1.EventTypeWarning, "DriverTaintsDevices", warning)
	}
}

func obsolete(snapshot *tracker.Snapshot, slice *resourceapi.ResourceSlice) bool {
	complete, found := snapshot.CompleteGeneration(slice.Spec.Driver, slice.Spec.Pool.Name)
	return found && slice.Spec.Pool.Generation < complete
}

func evicts(taints []resourceapi.DeviceTaint) bool {
	return slices.ContainsFunc(taints, func(t resourceapi.DeviceTaint) bool { return t.Effect == resourceapi.DeviceTaintEffectNoExecute })
}

// ruleChanged handles what the tracker has no event for: allocated devices that no slice
// publishes, acknowledged impact, and the status of the rule.
func (c *Controller) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	c.statuses.ruleChanged(before, after)
	acknowledged := after != nil && c.acknowledge(after.UID, after.Annotations)
	if before != nil && after != nil && before.UID == after.UID && sameSpec(before.Spec, after.Spec) && !acknowledged {
		return
	}
	c.dirty.during(func() {
		snapshot := c.options.Tracker.Snapshot()
		for _, rule := range []*resourceapi.DeviceTaintRule{before, after} {
			if rule == nil || !acknowledged && !evictsOrPreviews(rule.Spec.Taint.Effect) {
				continue
			}
			c.dirty.add(c.options.Usage.Concerned(rule.Spec.DeviceSelector, func(r *resourceapi.DeviceRequestAllocationResult) bool {
				if acknowledged {
					return true
				}
				if !counts(rule.Spec.Taint, r.Tolerations, c.options.Settings) {
					return false
				}
				_, published := snapshot.Device(r.Driver, r.Pool, r.Device)
				return !published
			})...)
		}
	})
	if acknowledged {
		c.wakeUp()
	}
}

// sameSpec reports whether two specs have the same evictions and the same preview. The
// time of a taint matters only for NoExecute.
func sameSpec(a, b resourceapi.DeviceTaintRuleSpec) bool {
	if b.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
		a.Taint.TimeAdded, b.Taint.TimeAdded = nil, nil
	}
	return equality.Semantic.DeepEqual(a, b)
}

// served reports whether the API server serves DeviceTaintRules and allows reading them.
func (c *Controller) served() bool {
	for _, condition := range c.options.Tracker.Conditions() {
		if condition.Kind == tracker.RuleKind {
			return condition.Reason != tracker.ReasonNotInstalled && condition.Reason != tracker.ReasonForbidden
		}
	}
	return true
}

// workQueue holds the pods to decide about, each once, in the order of their arrival.
// Unlike client-go's workqueue it knows when all work is done: an event handler that is
// about to add pods, and a decision in progress, count as work.
type workQueue struct {
	// idle is called whenever all work is done.
	idle func()

	mutex   sync.Mutex
	more    sync.Cond
	order   []types.NamespacedName
	waiting map[types.NamespacedName]struct{}
	// busy is the number of goroutines that add pods or decide about one.
	busy   int
	closed bool
}

func newWorkQueue(idle func()) *workQueue {
	b := &workQueue{idle: idle}
	b.more.L = &b.mutex
	return b
}

func (q *workQueue) add(pods ...types.NamespacedName) {
	if len(pods) == 0 {
		return // most changes concern no pod: waking the worker costs more than the change
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for _, pod := range pods {
		if _, known := q.waiting[pod]; !known {
			if q.waiting == nil {
				q.waiting = map[types.NamespacedName]struct{}{}
			}
			q.waiting[pod] = struct{}{}
			q.order = append(q.order, pod)
		}
	}
	q.more.Signal()
}

// during counts f, which adds pods, as work.
func (q *workQueue) during(f func()) {
	q.mutex.Lock()
	q.busy++
	q.mutex.Unlock()
	f()
	q.rest()
}

func (q *workQueue) rest() {
	q.mutex.Lock()
	q.busy--
	q.mutex.Unlock()
	if q.empty() {
		q.idle()
	}
}

// work calls decide for one pod after the other until close.
func (q *workQueue) work(decide func(types.NamespacedName)) {
	for {
		pod, ok := q.next()
		if !ok {
			return
		}
		decide(pod)
		q.rest()
	}
}

// next waits for a pod and counts it as work in progress; false after close.
func (q *workQueue) next() (types.NamespacedName, bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.more.Wait()
	}
	if q.closed {
		return types.NamespacedName{}, false
	}
	pod := q.order[0]
	delete(q.waiting, pod)
	if q.order = q.order[1:]; len(q.order) == 0 {
		q.order, q.waiting = nil, nil // gives the memory back
	}
	q.busy++
	return pod, true
}

// empty reports whether all work is done.
func (q *workQueue) empty() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(q.order) == 0 && q.busy == 0
}

func (q *workQueue) close() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.closed = true
	q.more.Broadcast()
}
