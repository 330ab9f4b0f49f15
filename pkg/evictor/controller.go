package evictor

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/dra-steward/dra-steward/pkg/guard"
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
	// Tracker is the view of the devices. The caller runs it.
	Tracker *tracker.Tracker
	// Rules has *resourceapi.DeviceTaintRule. The caller runs it.
	Rules cache.SharedIndexInformer
	// Usage knows the claims and the pods. The caller feeds it; UsageSynced is what
	// [usage.Index.Listen] returned, if that does it.
	Usage       *usage.Index
	UsageSynced []cache.DoneChecker
	// Mode is [ModeObserve] if empty.
	Mode Mode
	// Prober asks whether kube-controller-manager evicts for rules. [ModeAuto] needs it.
	Prober Prober
	// Thresholds pause the evictions of a rule or driver that hits more than they allow;
	// nil never does.
	Thresholds *guard.Thresholds
	// Journal keeps what was evicted over restarts; nil keeps what the conditions of rules
	// say, and the circuit breaker begins anew with each start.
	Journal Journal
	// About is the object that events are about which concern no pod and no rule; nil
	// for none.
	About *corev1.ObjectReference
	// Settings are where the semantics leave a choice.
	Settings Settings
	// ActSince leaves taints alone that are older: they are decided about and counted,
	// and nobody is evicted for them. Zero acts on all.
	ActSince time.Time
	// Limits are the rates of evictions.
	Limits Limits
	// Workers is how many pods are evicted at a time, 8 if zero.
	Workers int
	// Metrics may be nil.
	Metrics *Metrics
	// Logger gets what has no other place to go. The zero value discards it.
	Logger logr.Logger
}

// A Controller evicts pods from tainted devices. Its event handlers note which pods
// may be concerned, one goroutine decides about them, workers call the API server. The
// mutex is held for maps and numbers only, never during a call.
type Controller struct {
	options Options
	view    view
	outlook atomic.Pointer[outlook]
	dirty   *backlog
	// work hands pods whose time has come to the workers.
	work chan eviction
	// wake holds a token when the agenda has changed.
	wake     chan struct{}
	limiter  *limiter
	statuses *statuses

	mutex   sync.Mutex
	cases   *cases
	breaker breaker
	coexist Coexistence
	// written are the pods that the journal knows to be next.
	written map[types.UID]struct{}
}

// New prepares a controller; [Controller.Run] makes it work.
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
	if options.Client == nil && options.Mode != ModeObserve || options.Prober == nil && options.Mode == ModeAuto {
		return nil, fmt.Errorf("evictor: mode %s needs a Client, and auto a Prober", options.Mode)
	}
	if options.Workers == 0 {
		options.Workers = 8
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	c := &Controller{
		options: options,
		view:    view{tracker: options.Tracker, rules: options.Rules.GetStore(), seen: &sightings{now: time.Now}},
		work:    make(chan eviction),
		wake:    make(chan struct{}, 1),
		limiter: newLimiter(options.Limits),
		cases:   newCases(),
		breaker: breaker{thresholds: options.Thresholds, warned: map[string]bool{}, broken: map[cause][]guard.Excess{}},
	}
	c.dirty = newBacklog(c.changed)
	c.outlook.Store(&outlook{shares: options.Mode.shares(), since: options.ActSince, confirmed: c.confirmed})
	c.statuses = newStatuses(c)
	return c, nil
}

// Run works until ctx ends, and returns when everything it started has ended. It can
// be called once.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	// What there is must be known before anybody decides.
	if !cache.WaitFor(ctx, "evictor", c.options.UsageSynced...) {
		return nil
	}
	if err := c.recall(ctx); err != nil {
		return err
	}
	synced, rules, err := c.listen(ctx, &running)
	if err != nil {
		return err
	}
	if !cache.WaitFor(ctx, "evictor", synced) || c.served() && !cache.WaitFor(ctx, "evictor", rules) {
		return nil
	}
	context.AfterFunc(ctx, c.dirty.close)
	running.Go(func() { c.dirty.work(c.decide) })
	running.Go(func() { c.keepTime(ctx) })
	if c.options.Mode != ModeObserve {
		running.Go(func() { c.statuses.run(ctx) })
	}
	if c.options.Mode == ModeAuto {
		running.Go(func() { c.probe(ctx) })
	}
	for range c.options.Workers {
		running.Go(func() { c.evictAll(ctx) })
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) decide(name types.NamespacedName) {
	start := time.Now()
	pod := c.options.Usage.Pod(name.Namespace, name.Name)
	if pod == nil {
		c.finish(func() { c.cases.gone(name, start) })
		return
	}
	o := c.outlook.Load()
	d := decision{verdict: DecidePod(pod, c.options.Usage, c.view, c.options.Settings, start), ending: pod.DeletionTimestamp != nil}
	d.plan = o.plan(pod, d.verdict)
	if c.statuses.previewing() {
		d.would = o.shares.ours(DecidePod(pod, c.options.Usage, c.view.preview(), c.options.Settings, start))
	}
	var came changed
	seen := false
	c.finish(func() {
		came = c.cases.decided(name, pod.UID, d, start)
		seen = c.notice(pod, start)
	})
	if c.outlook.Load() != o { // who changed it may not have known of this pod yet
		c.dirty.add(name)
	}
	if seen {
		c.coexistence(func(o *Coexistence) { o.Seen(SliceSource) })
	}
	c.options.Metrics.decided(time.Since(start))
	switch came {
	case planned:
		if log := c.options.Logger.V(1); log.Enabled() { // the explanation takes longer than the decision
			log.Info("Pod has to leave its devices", "pod", name, "verdict", d.plan.Explain(start))
		}
	case cancelled:
		c.options.Metrics.cancel()
		c.event(pod, "Cancelling deletion")
	}
}

// look changes the outlook, and has everything decided again that it matters for.
func (c *Controller) look(change func(*outlook)) {
	o := *c.outlook.Load()
	change(&o)
	c.outlook.Store(&o)
	var known []types.NamespacedName
	c.finish(func() {
		known = slices.Collect(c.cases.pods.Keys())
	})
	c.dirty.add(known...)
	c.statuses.all()
}

// changed wakes whoever waits for the agenda, and brings the gauges up to date.
func (c *Controller) changed() {
	any := false
	c.finish(func() {
		any = len(c.cases.agenda)+len(c.breaker.broken) > 0
		c.options.Metrics.pods(c.cases.states, len(c.breaker.broken))
	})
	if any {
		c.wakeUp()
	}
}

func (c *Controller) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Controller) event(pod *corev1.Pod, message string) {
	if c.options.Recorder != nil && c.options.Mode != ModeObserve {
		c.options.Recorder.Event(pod, corev1.EventTypeNormal, EventReason, message)
	}
}

// report is an event about what is no object of its own.
func (c *Controller) report(kind, reason, message string) {
	if c.options.Recorder != nil && c.options.About != nil && c.options.Mode != ModeObserve {
		c.options.Recorder.Event(c.options.About, kind, reason, message)
	}
}

// Verdict returns what was decided about a pod, with the part that is for the
// controller to carry out; zero values if it is not concerned.
func (c *Controller) Verdict(pod types.NamespacedName) (verdict, plan Verdict) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known := c.cases.of(pod); known != nil {
		d := known.decision()
		return d.verdict, d.plan.Verdict
	}
	return Verdict{}, Verdict{}
}

// Tally returns the counts of a rule.
func (c *Controller) Tally(rule types.UID) Tally {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.cases.ledger.tally(rule)
}

// listen adds the handlers, which only note who may be concerned, and returns what to
// wait for, and what to wait for where rules are served.
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
		// The only error is that there is no such handler any more.
		_ = c.options.Rules.RemoveEventHandler(handle)
	})
	return devices, handle.HasSyncedChecker(), nil
}

// handler is one function for all events of a kind: the object before, nil for a new
// one, and after, nil for a deleted one. A deletion that was missed hands over the last
// state that was seen.
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
	c.countDevices(before, after)
	c.dirty.during(func() {
		for id, taints := range changedDevices(before, after) {
			c.view.seen.keep(id, taints)
			c.dirty.add(c.options.Usage.Concerned(id)...)
		}
	})
}

// countDevices keeps the numbers of the devices of drivers.
func (c *Controller) countDevices(before, after *resourceapi.ResourceSlice) {
	if before == nil || after == nil || len(before.Spec.Devices) != len(after.Spec.Devices) {
		c.statuses.published.Add(1)
	}
	slice := before
	if after != nil {
		slice = after
	}
	var count driverCount
	if published := c.options.Tracker.Snapshot().Published(slice.Name); published != nil {
		count = driverCount{driver: published.Spec.Driver, published: len(published.Spec.Devices)}
		for i := range published.Spec.Devices {
			if evicts(published.Spec.Devices[i].Taints) {
				count.tainted++
			}
		}
	}
	var warning string
	c.finish(func() {
		c.breaker.drivers.set(slice.Name, count)
		sum := c.breaker.drivers.of[slice.Spec.Driver]
		warning = c.breaker.warn(slice.Spec.Driver, sum)
		c.options.Metrics.devices(slice.Spec.Driver, sum)
	})
	if warning != "" {
		c.options.Logger.Info("A driver has tainted many of its devices", "driver", slice.Spec.Driver, "because", warning)
		c.report(corev1.EventTypeWarning, "DriverTaintsDevices", warning)
	}
}

func evicts(taints []resourceapi.DeviceTaint) bool {
	return slices.ContainsFunc(taints, func(t resourceapi.DeviceTaint) bool { return t.Effect == resourceapi.DeviceTaintEffectNoExecute })
}

// ruleChanged is for devices that no slice publishes, about which the tracker says
// nothing; for what the rule acknowledges; and for its status.
func (c *Controller) ruleChanged(before, after *resourceapi.DeviceTaintRule) {
	c.statuses.ruleChanged(before, after)
	said := after != nil && c.acknowledge(after.UID, after.Annotations)
	if before != nil && after != nil && before.UID == after.UID && sameSpec(before.Spec, after.Spec) && !said {
		return
	}
	c.dirty.during(func() {
		for _, rule := range []*resourceapi.DeviceTaintRule{before, after} {
			if rule == nil {
				continue
			}
			for _, id := range c.options.Usage.Allocated(rule.Spec.DeviceSelector) {
				if said || !c.published(id) {
					c.dirty.add(c.options.Usage.Concerned(id)...)
				}
			}
		}
	})
	if said {
		c.wakeUp()
	}
}

// sameSpec says whether two rules evict the same, and preview the same: since when a taint
// is there matters only if it evicts.
func sameSpec(a, b resourceapi.DeviceTaintRuleSpec) bool {
	if b.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
		a.Taint.TimeAdded, b.Taint.TimeAdded = nil, nil
	}
	return equality.Semantic.DeepEqual(a, b)
}

func (c *Controller) published(id DeviceID) bool {
	_, published := c.options.Tracker.Snapshot().Device(id.Driver, id.Pool, id.Device)
	return published
}

// served says whether the API server has DeviceTaintRules that can be read.
func (c *Controller) served() bool {
	for _, condition := range c.options.Tracker.Conditions() {
		if condition.Kind == tracker.RuleKind {
			return condition.Reason != tracker.ReasonNotInstalled && condition.Reason != tracker.ReasonForbidden
		}
	}
	return true
}

// backlog are the pods that have to be decided about, each once, in their order. Unlike a
// workqueue it knows for certain when there are none: that somebody is about to add more,
// or decides about the last, counts.
type backlog struct {
	// idle is called whenever everything that was to be decided is.
	idle func()

	mutex   sync.Mutex
	more    sync.Cond
	order   []types.NamespacedName
	waiting map[types.NamespacedName]struct{}
	// busy is how many goroutines add pods or decide about one.
	busy   int
	closed bool
}

func newBacklog(idle func()) *backlog {
	b := &backlog{idle: idle}
	b.more.L = &b.mutex
	return b
}

func (b *backlog) add(pods ...types.NamespacedName) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, pod := range pods {
		if _, known := b.waiting[pod]; !known {
			if b.waiting == nil {
				b.waiting = map[types.NamespacedName]struct{}{}
			}
			b.waiting[pod] = struct{}{}
			b.order = append(b.order, pod)
		}
	}
	b.more.Signal()
}

// during counts f, which adds pods, as something that is not done yet.
func (b *backlog) during(f func()) {
	b.mutex.Lock()
	b.busy++
	b.mutex.Unlock()
	f()
	b.rest()
}

func (b *backlog) rest() {
	b.mutex.Lock()
	b.busy--
	b.mutex.Unlock()
	if b.empty() {
		b.idle()
	}
}

// work calls decide with one pod after the other until close.
func (b *backlog) work(decide func(types.NamespacedName)) {
	for {
		pod, ok := b.next()
		if !ok {
			return
		}
		decide(pod)
		b.rest()
	}
}

// next waits for a pod and counts it as being decided about; false after close.
func (b *backlog) next() (types.NamespacedName, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for len(b.order) == 0 && !b.closed {
		b.more.Wait()
	}
	if b.closed {
		return types.NamespacedName{}, false
	}
	pod := b.order[0]
	delete(b.waiting, pod)
	if b.order = b.order[1:]; len(b.order) == 0 {
		b.order, b.waiting = nil, nil // gives the memory back
	}
	b.busy++
	return pod, true
}

// empty says that everything that was to be decided is.
func (b *backlog) empty() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.order) == 0 && b.busy == 0
}

func (b *backlog) close() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.closed = true
	b.more.Broadcast()
}
