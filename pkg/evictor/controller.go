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
