package evictor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/dra-steward/dra-steward/pkg/tracker"
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
	// Rules has *resourceapi.DeviceTaintRule; Claims and Pods what their names say. The
	// caller runs them; Claims and Pods must be given to New before they run, since they
	// get an index each.
	Rules, Claims, Pods cache.SharedIndexInformer
	// Mode is [ModeObserve] if empty.
	Mode Mode
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
	index   index
	dirty   workqueue.TypedInterface[types.NamespacedName]
	// work hands pods whose time has come to the workers.
	work chan *podCase
	// wake holds a token when the agenda has changed.
	wake     chan struct{}
	limiter  *limiter
	statuses *statuses

	mutex sync.Mutex
	cases *cases
}

// New prepares a controller; [Controller.Run] makes it work.
func New(options Options) (*Controller, error) {
	if options.Tracker == nil || options.Rules == nil || options.Claims == nil || options.Pods == nil {
		return nil, errors.New("evictor: Tracker, Rules, Claims and Pods are required")
	}
	if options.Mode == "" {
		options.Mode = ModeObserve
	}
	if err := errors.Join(options.Mode.Validate(), options.Settings.Validate(), options.Limits.Validate()); err != nil {
		return nil, fmt.Errorf("evictor: %w", err)
	}
	if options.Client == nil && options.Mode != ModeObserve {
		return nil, fmt.Errorf("evictor: mode %s needs a Client", options.Mode)
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
		dirty:   workqueue.NewTyped[types.NamespacedName](),
		work:    make(chan *podCase),
		wake:    make(chan struct{}, 1),
		limiter: newLimiter(options.Limits),
		cases:   newCases(options.Mode.grace()),
	}
	c.statuses = newStatuses(c)
	var err error
	c.index, err = newIndex(options.Claims, options.Pods, options.Settings)
	return c, err
}

// Run works until ctx ends, and returns when everything it started has ended. It can
// be called once.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	synced, rules, err := c.listen(ctx, &running)
	if err != nil {
		return err
	}
	if !cache.WaitFor(ctx, "evictor", synced...) || c.served() && !cache.WaitFor(ctx, "evictor", rules) {
		return nil
	}
	context.AfterFunc(ctx, c.dirty.ShutDown)
	running.Go(c.decideAll)
	running.Go(func() { c.keepTime(ctx) })
	if c.options.Mode.condition() != "" {
		running.Go(func() { c.statuses.run(ctx) })
	}
	for range c.options.Workers {
		running.Go(func() { c.evictAll(ctx) })
	}
	<-ctx.Done()
	return nil
}

// decideAll decides about the pods that may be concerned, one after the other.
func (c *Controller) decideAll() {
	for {
		name, shutdown := c.dirty.Get()
		if shutdown {
			return
		}
		c.decide(name)
		c.dirty.Done(name)
	}
}

func (c *Controller) decide(name types.NamespacedName) {
	start := time.Now()
	pod := c.index.pod(name)
	if pod == nil {
		c.mutex.Lock()
		c.cases.gone(name)
		c.mutex.Unlock()
		c.changed()
		return
	}
	verdict := DecidePod(pod, c.index, c.view, c.options.Settings, start)
	plan := c.options.Mode.plan(pod, verdict, c.options.ActSince)
	c.mutex.Lock()
	change := c.cases.decided(name, pod.UID, verdict, plan, start)
	c.mutex.Unlock()
	c.options.Metrics.decided(time.Since(start))
	c.changed()
	switch change {
	case planned:
		c.options.Logger.V(1).Info("Pod has to leave its devices", "pod", name, "verdict", plan.Explain(start))
	case cancelled:
		c.options.Metrics.cancel()
		c.event(pod, "Cancelling deletion")
	}
}

// changed wakes whoever waits for the agenda, and brings the gauges up to date.
func (c *Controller) changed() {
	c.mutex.Lock()
	planned := len(c.cases.agenda)
	observed := len(c.cases.byUID) - planned
	c.mutex.Unlock()
	c.options.Metrics.pods(planned, observed)
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

// Verdict returns what was decided about a pod, with the part that is for the
// controller to carry out; zero values if it is not concerned.
func (c *Controller) Verdict(pod types.NamespacedName) (verdict, plan Verdict) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known := c.cases.byUID[c.cases.byName[pod]]; known != nil {
		return known.verdict, known.plan
	}
	return Verdict{}, Verdict{}
}

// Tally returns the counts of a rule.
func (c *Controller) Tally(rule types.UID) Tally {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.cases.ledger.tally(rule)
}
