package deviceroll

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// API is what a [Controller] reads and writes; an [ownclient.RollClient] has it.
type API interface {
	UpdateRollStatus(ctx context.Context, r *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error)
	GetRoll(ctx context.Context, name string) (*v1alpha1.DeviceRoll, error)
	Create(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error)
	Update(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	DriverPods(ctx context.Context, of *v1alpha1.RollDriverPods, node string) ([]corev1.Pod, error)
	DeletePod(ctx context.Context, pod types.NamespacedName, uid types.UID) error
	PatchNode(ctx context.Context, node *corev1.Node, roll string) error
	Proof(ctx context.Context, namespace, name string) (*corev1.Pod, *resourceapi.ResourceClaim, error)
	CreateProof(ctx context.Context, pod *corev1.Pod, claim *resourceapi.ResourceClaim) error
	DeleteProof(ctx context.Context, namespace, name string) error
}

// Options configure a [Controller].
type Options struct {
	API API
	// Rolls has *v1alpha1.DeviceRoll, which the controller runs.
	Rolls cache.SharedIndexInformer
	// Drains has *v1alpha1.DeviceDrain, Nodes *corev1.Node with labels, annotations, conditions, and whether they are
	// schedulable. The caller runs them.
	Drains, Nodes cache.SharedIndexInformer
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
	// Foresight finds out which pods do not land again; nil orders nodes by the number of their pods.
	Foresight drain.Foresight
	// Recorder makes events about rolls; nil makes none.
	Recorder record.EventRecorder
	// Metrics may be nil.
	Metrics *Metrics
	// Logger gets what has no other place to go. The zero value discards it.
	Logger logr.Logger
}

// The times of the controller. Changes are gathered for gap; rolls are looked at each period even if
// nothing seems to change.
const (
	gap    = time.Second
	period = 10 * time.Second
	// limit is the timeout of the calls of one roll.
	limit = 30 * time.Second
)

// A Controller carries out DeviceRolls.
type Controller struct {
	options Options
	changed chan struct{}
	// written are the rolls as they were written last, until the informer has them.
	written reconcile.Written[*v1alpha1.DeviceRoll]
	made    *reconcile.DrainStore
	// refused is why the last write for a node failed, by roll and node.
	refused map[string]string
	// pods are those of the drivers of rolls, by roll.
	pods map[string]*driverPods
	// landings are the last answers of Foresight, by roll and node.
	landings map[string]landing
}

// New prepares a controller; [Controller.Run] makes it work.
func New(options Options) (*Controller, error) {
	if options.API == nil || options.Rolls == nil || options.Drains == nil || options.Nodes == nil || options.Tracker == nil || options.Usage == nil || options.Beginnings == nil {
		return nil, errors.New("rolls: the client, the views and the informers are required")
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	return &Controller{
		options: options, changed: make(chan struct{}, 1), written: map[string]*v1alpha1.DeviceRoll{},
		made: reconcile.NewDrainStore(options.Drains.GetStore(), options.Drains.LastSyncResourceVersion, options.Beginnings), refused: map[string]string{}, landings: map[string]landing{}, pods: map[string]*driverPods{},
	}, nil
}

// Run works until ctx ends. It can be called once. Where the API server has no DeviceRolls it waits
// for them.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	handlers, err := c.listen()
	if err != nil {
		return fmt.Errorf("rolls: %w", err)
	}
	defer handlers.Remove()
	running.Go(func() { c.options.Rolls.RunWithContext(ctx) })
	if reconcile.WaitFor(ctx, "rolls", handlers.Synced...) {
		reconcile.Passes(ctx, c.changed, gap, c.pass)
	}
	return nil
}

// listen wakes the controller when something changes that rolls read.
func (c *Controller) listen() (*reconcile.Handlers, error) {
	wake := func(any) { c.wake() }
	handler := cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(old, object any) {
		if !sameNode(old, object) {
			c.wake()
		}
	}, DeleteFunc: wake}
	var handlers reconcile.Handlers
	for _, informer := range []cache.SharedIndexInformer{c.options.Rolls, c.options.Drains, c.options.Nodes} {
		if err := handlers.Add(informer, handler); err != nil {
			return nil, err
		}
	}
	devices := c.options.Tracker.AddEventHandler(handler)
	handlers.OnRemove(func() { c.options.Tracker.RemoveEventHandler(devices) })
	handlers.Synced = slices.Concat(handlers.Synced, c.options.UsageSynced, []cache.DoneChecker{c.options.Tracker.HasSyncedChecker()})
	return &handlers, nil
}

// sameNode reports whether an update of a node changed nothing that rolls read.
func sameNode(old, object any) bool {
	a, is := old.(*corev1.Node)
	b, also := object.(*corev1.Node)
	return is && also && a.Spec.Unschedulable == b.Spec.Unschedulable && maps.Equal(a.Annotations, b.Annotations) &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Status.Conditions, b.Status.Conditions)
}

func (c *Controller) wake() { reconcile.Wake(c.changed) }

// pass takes the next step of all rolls. It returns when to come back though nothing changes.
func (c *Controller) pass(ctx context.Context) time.Duration {
	next, rolls := period, c.rolls()
	now := time.Now()
	all := &cluster{view: c.options.Tracker.Snapshot(), drains: c.made.All(now), busy: map[string]string{}, now: now}
	present := map[string]bool{}
	for _, r := range rolls {
		present[r.Name] = true
		for i := range r.Status.Nodes {
			present[r.Name+"/"+r.Status.Nodes[i].Name] = true
			if roll.InWork(r.Status.Nodes[i].State) {
				all.busy[r.Status.Nodes[i].Name] = r.Name
			}
		}
	}
	for _, r := range rolls {
		if r.DeletionTimestamp != nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		wake, err := c.step(limited, r, all)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.options.Logger.Error(err, "A step of a DeviceRoll failed; retrying", "roll", r.Name)
			wake = gap
		}
		next = min(next, wake)
	}
	maps.DeleteFunc(c.pods, func(name string, _ *driverPods) bool { return !present[name] })
	c.orphans(ctx, present)
	c.options.Metrics.keep(present)
	return next
}

// orphans uncordons the nodes of rolls that no longer exist.
func (c *Controller) orphans(ctx context.Context, present map[string]bool) {
	for _, object := range c.options.Nodes.GetStore().List() {
		node, is := object.(*corev1.Node)
		if !is {
			continue
		}
		name := node.Annotations[v1alpha1.RollAnnotation]
		if name == "" || present[name+"/"+node.Name] {
			continue
		}
		if r, err := c.options.API.GetRoll(ctx, name); err != nil && !apierrors.IsNotFound(err) || err == nil && has(r, node.Name) {
			continue // it was created a moment ago, or that is not known
		}
		if err := c.options.API.PatchNode(ctx, node, ""); err != nil && ctx.Err() == nil {
			c.options.Logger.Error(err, "Cannot uncordon the node of a DeviceRoll that is gone", "roll", name, "node", node.Name)
		}
	}
}

// has reports whether a roll has a node: one of the same name may have been deleted, and had others.
func has(r *v1alpha1.DeviceRoll, node string) bool {
	return slices.ContainsFunc(r.Status.Nodes, func(n v1alpha1.RollNode) bool { return n.Name == node })
}

// event makes an event about a roll.
func (c *Controller) event(r *v1alpha1.DeviceRoll, kind, reason, message string) {
	if c.options.Recorder != nil {
		c.options.Recorder.Event(&corev1.ObjectReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.DeviceRollKind, Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion},
			kind, reason, message)
	}
}
