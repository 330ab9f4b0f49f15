package devicereaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// API is what a [Controller] writes; an [ownclient.ReactionClient] has it.
type API interface {
	UpdateStatus(ctx context.Context, r *v1alpha1.DeviceReaction) (*v1alpha1.DeviceReaction, error)
	CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error)
	UpdateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error)
	DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain) error
}

// Options configure a [Controller].
type Options struct {
	API API
	// Reactions has *v1alpha1.DeviceReaction. The controller runs it.
	Reactions cache.SharedIndexInformer
	// Drains has *v1alpha1.DeviceDrain, Claims, Pods and Nodes what their names say, with what [health.Keep]
	// keeps. The caller runs them.
	Drains, Claims, Pods, Nodes cache.SharedIndexInformer
	// Tracker is the view of the devices; the caller runs it.
	Tracker *tracker.Tracker
	// Usage has who holds which device, and Beginnings the evictions that began. UsageSynced are done once both
	// know what there was.
	Usage       *usage.Index
	Beginnings  reconcile.Beginnings
	UsageSynced []cache.DoneChecker
	// Thresholds are those of the guard, and Window is how long an eviction counts.
	Thresholds guard.Thresholds
	Window     time.Duration
	// Proofs are where proofs run; nil switches them off.
	Proofs *ProofOptions
	// Restarts are where pods of drivers may be deleted; nil is nowhere.
	Restarts *RestartOptions
	// Recorder makes events about reactions; nil makes none.
	Recorder record.EventRecorder
	// Metrics may be nil.
	Metrics *Metrics
	// Logger gets what has no other place to go. The zero value discards it.
	Logger logr.Logger
}

// The times of the controller. Changes are gathered for gap; reactions are looked at each period
// even if nothing seems to change.
const (
	gap    = time.Second
	period = 10 * time.Second
	// stepTimeout is the timeout of the calls of one reaction.
	stepTimeout = 30 * time.Second
)

// A Controller carries out DeviceReactions.
type Controller struct {
	options  Options
	compiler patch.Compiler
	changed  chan struct{}
	// written are the reactions as they were written last, until the informer has them.
	written reconcile.Written[*v1alpha1.DeviceReaction]
	made    *reconcile.DrainStore
	// refused is why the last deletions of drivers' pods were refused, by reaction.
	refused map[string]map[types.UID]string
	// notCreated is why the last drains were not created, by reaction and drain.
	notCreated map[string]map[string]string
	// failures are the failed binding conditions that were seen last.
	failures struct {
		sync.Mutex
		all []reaction.BindingFailure
	}
}

// New prepares a controller; [Controller.Run] makes it work.
func New(options Options) (*Controller, error) {
	if options.API == nil || options.Reactions == nil || options.Drains == nil || options.Claims == nil || options.Pods == nil || options.Nodes == nil || options.Tracker == nil || options.Usage == nil || options.Beginnings == nil {
		return nil, errors.New("reactions: the client, the views and the informers are required")
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	return &Controller{
		options: options, changed: make(chan struct{}, 1),
		written: map[string]*v1alpha1.DeviceReaction{}, made: reconcile.NewDrainStore(options.Drains.GetStore(), options.Drains.LastSyncResourceVersion, options.Beginnings), refused: map[string]map[types.UID]string{}, notCreated: map[string]map[string]string{},
	}, nil
}

// Run works until ctx ends. It can be called once. Where the API server has no DeviceReactions it
// waits for them.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	handlers, err := c.listen()
	if err != nil {
		return fmt.Errorf("reactions: %w", err)
	}
	defer handlers.Remove()
	running.Go(func() { c.options.Reactions.RunWithContext(ctx) })
	if proofs := c.options.Proofs; proofs != nil {
		running.Go(func() { proofs.Jobs.RunWithContext(ctx) })
	}
	if reconcile.WaitFor(ctx, "reactions", handlers.Synced...) {
		reconcile.Passes(ctx, c.changed, gap, c.pass)
	}
	return nil
}

// listen wakes the controller when something changes that reactions read.
func (c *Controller) listen() (*reconcile.Handlers, error) {
	wake := func(any) { c.wake() }
	handler := cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(old, object any) {
		if !sameConditions(old, object) {
			c.wake()
		}
	}, DeleteFunc: wake}
	informers := []cache.SharedIndexInformer{c.options.Reactions, c.options.Drains, c.options.Nodes}
	if c.options.Proofs != nil {
		informers = append(informers, c.options.Proofs.Jobs)
	}
	var handlers reconcile.Handlers
	for _, informer := range informers {
		if err := handlers.Add(informer, handler); err != nil {
			return nil, err
		}
	}
	if err := handlers.Add(c.options.Pods, cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, object any) {
		if a, is := old.(*corev1.Pod); is && !health.SameStatus(a, object.(*corev1.Pod)) {
			c.wake()
		}
	}}); err != nil {
		return nil, err
	}
	if err := handlers.Add(c.options.Claims, cache.ResourceEventHandlerFuncs{AddFunc: c.noteBindings, UpdateFunc: func(_, object any) { c.noteBindings(object) }}); err != nil {
		return nil, err
	}
	devices := c.options.Tracker.AddEventHandler(handler)
	handlers.OnRemove(func() { c.options.Tracker.RemoveEventHandler(devices) })
	handlers.Synced = slices.Concat(handlers.Synced, c.options.UsageSynced, []cache.DoneChecker{c.options.Tracker.HasSyncedChecker()})
	return &handlers, nil
}

func (c *Controller) wake() { reconcile.Wake(c.changed) }

// pass takes the next step of all reactions. It returns when to come back though nothing changes.
func (c *Controller) pass(ctx context.Context) time.Duration {
	next := period
	present, all := map[string]bool{}, c.snapshot(time.Now())
	for _, name := range c.options.Reactions.GetStore().ListKeys() {
		r := c.newest(name)
		if r == nil || r.DeletionTimestamp != nil {
			continue
		}
		present[name] = true
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		wake, err := c.step(limited, r, all)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.options.Logger.Error(err, "A step of a DeviceReaction failed; retrying", "reaction", name)
			wake = period
		}
		next = min(next, wake)
	}
	for name := range c.written {
		if !present[name] {
			delete(c.written, name)
			delete(c.refused, name)
			delete(c.notCreated, name)
		}
	}
	c.options.Metrics.keep(present)
	return next
}

// event makes an event about a reaction.
func (c *Controller) event(r *v1alpha1.DeviceReaction, kind, reason, message string) {
	if c.options.Recorder != nil {
		c.options.Recorder.Event(&corev1.ObjectReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.DeviceReactionKind, Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion},
			kind, reason, message)
	}
}
