package devicedrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// DeviceDrains is what a [Controller] needs of the API of drains; a [Client] has it.
type DeviceDrains interface {
	Informer() cache.SharedIndexInformer
	UpdateStatus(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error)
}

// Options configure a [Controller].
type Options struct {
	// Drains reads and writes DeviceDrains, Rules writes DeviceTaintRules and reads the
	// CustomResourceDefinition of drains, Client evicts.
	Drains DeviceDrains
	Rules  dynamic.Interface
	Client kubernetes.Interface
	// Tracker is the view of the devices, Usage who holds them. The caller runs the one
	// and lets the other listen.
	Tracker *tracker.Tracker
	Usage   *usage.Index
	// UsageSynced are done once Usage knows what there was.
	UsageSynced []cache.DoneChecker
	// TaintRules has *resourceapi.DeviceTaintRule, Claims, Pods and Budgets what their
	// names say. The caller runs them.
	TaintRules, Claims, Pods, Budgets cache.SharedIndexInformer
	// Thresholds are what a drain may hit without an acknowledgement.
	Thresholds guard.Thresholds
	// Settings are the times that drains keep.
	Settings drain.Delays
	// Foresight finds out which pods do not land again; nil does not ask.
	Foresight drain.Foresight
	// Recorder makes events about drains, their pods and rules; nil makes none.
	Recorder record.EventRecorder
	// Metrics may be nil.
	Metrics *Metrics
	// Logger gets what has no other place to go. The zero value discards it.
	Logger logr.Logger
}

// The times of the controller. Changes are gathered for window; a drain that goes on is
// looked at each period even if nothing seems to change.
const (
	window = 200 * time.Millisecond
	period = 10 * time.Second
	// pause is the least time between two writes of a status, calm between two in which only
	// counts and messages differ.
	pause = time.Second
	calm  = 3 * time.Second
	// maxWrites is how many rules a step writes.
	maxWrites = 64
	// stepTimeout is the timeout of a step, including all its calls.
	stepTimeout = time.Minute
)

// A Controller carries out DeviceDrains.
type Controller struct {
	options  Options
	informer cache.SharedIndexInformer
	queue    workqueue.TypedDelayingInterface[string]
	selector patch.Selector
	rules    ruleWriter

	// deciding guards what follows. It is held while the next step of a drain is decided,
	// never during an API call.
	deciding sync.Mutex
	// written are the drains as they were written last.
	written reconcile.Written[*v1alpha1.DeviceDrain]
	wrote   map[string]time.Time
	// said are the events about drains, by name and reason, kept the rules of drains that
	// went with their type.
	said map[string]map[string]time.Time
	kept map[types.UID]bool
	// answers are what the API server has said about pods, for all drains.
	answers answers
	// asking are the pods that a drain has decided to evict, or to ask to leave, until all have an answer.
	asking map[string][]v1alpha1.DrainPod
	// predictions are the last answers to which pods do not land again.
	predictions map[string]prediction
	// unread is when listing the EvictionRequests of a drain began to fail.
	unread map[string]time.Time
	// version is that of the API server, empty if it is not known, versionAt when it was read.
	version   string
	versionAt time.Time
	// cannot is why no rule can be written, until then.
	cannot string
	until  time.Time

	// active are the drains that go on; the handlers ask for them.
	mutex  sync.Mutex
	active map[string]struct{}
}

// New prepares a controller; [Controller.Run] makes it work.
func New(options Options) (*Controller, error) {
	if options.Drains == nil || options.Rules == nil || options.Client == nil || options.Tracker == nil || options.Usage == nil ||
		options.TaintRules == nil || options.Claims == nil || options.Pods == nil || options.Budgets == nil {
		return nil, errors.New("drains: all clients, the views and the informers are required")
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	return &Controller{
		options: options, informer: options.Drains.Informer(), rules: ruleWriter{client: options.Rules},
		queue:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{}),
		written: map[string]*v1alpha1.DeviceDrain{}, wrote: map[string]time.Time{}, active: map[string]struct{}{},
		said: map[string]map[string]time.Time{}, kept: map[types.UID]bool{}, answers: newAnswers(), unread: map[string]time.Time{}, asking: map[string][]v1alpha1.DrainPod{}, predictions: map[string]prediction{},
	}, nil
}

// Run works until ctx ends. It can be called once. Where the API server has no
// DeviceDrains it waits for them. Each step of a drain has its own goroutine, so that slow
// answers delay only that drain; the queue never hands out a drain twice.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, c.queue.ShutDown)
	var running sync.WaitGroup
	defer running.Wait()
	handlers, err := c.listen()
	if err != nil {
		return fmt.Errorf("drains: %w", err)
	}
	defer handlers.Remove()
	running.Go(func() { c.informer.RunWithContext(ctx) })
	if !reconcile.WaitFor(ctx, "drains", handlers.Synced...) {
		return nil
	}
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return nil
		}
		running.Go(func() {
			defer c.queue.Done(name)
			c.reconcile(ctx, name)
		})
	}
}

// reconcile takes the next step of a drain, and comes back when the next is due.
func (c *Controller) reconcile(ctx context.Context, name string) {
	limited, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	wake, err := c.step(limited, name)
	if err != nil && ctx.Err() == nil {
		c.options.Logger.Error(err, "A step of a DeviceDrain failed; retrying", "drain", name)
		wake = time.Second
	}
	if wake > 0 {
		c.queue.AddAfter(name, min(wake, period))
	}
}

// newest is a drain as it was read or written last, or nil. The caller holds deciding.
func (c *Controller) newest(name string) *v1alpha1.DeviceDrain {
	object, exists, err := c.informer.GetStore().GetByKey(name)
	read, ok := object.(*v1alpha1.DeviceDrain)
	if err != nil || !exists || !ok {
		return nil
	}
	return c.written.Newest(read)
}

// forget drops what is known about a drain that is gone. The caller holds deciding.
func (c *Controller) forget(name string) {
	delete(c.written, name)
	delete(c.wrote, name)
	delete(c.said, name)
	delete(c.answers.outcomes, name)
	delete(c.answers.evicted, name)
	delete(c.unread, name)
	delete(c.predictions, name)
	c.activate(name, false)
	c.options.Metrics.forget(name)
}

// activate reports whether a drain goes on.
func (c *Controller) activate(name string, goesOn bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if goesOn {
		c.active[name] = struct{}{}
	} else {
		delete(c.active, name)
	}
}

// wakeAll looks at all drains that go on, soon.
func (c *Controller) wakeAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for name := range c.active {
		c.queue.AddAfter(name, window)
	}
}

// versionPeriod is how long a version of the API server is believed.
const versionPeriod = 5 * time.Minute

// readVersion reads the version of the API server, unless it was read a short time ago.
func (c *Controller) readVersion() {
	read := false
	c.locked(func() {
		if read = c.versionAt.IsZero() || time.Since(c.versionAt) >= versionPeriod; read {
			c.versionAt = time.Now() // other steps do not wait
		}
	})
	if !read {
		return
	}
	info, err := c.options.Client.Discovery().ServerVersion()
	if err != nil {
		c.options.Logger.V(1).Info("Cannot read the version of the API server", "error", err.Error())
		return
	}
	c.locked(func() { c.version = info.GitVersion })
}

// refused reports whether no rule can be written for now.
func (c *Controller) refused(now time.Time) string {
	if now.Before(c.until) {
		return c.cannot
	}
	return ""
}

// podName names a pod.
func podName(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
