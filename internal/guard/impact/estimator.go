// Package impact estimates what a write would evict: the devices, claims, pods and
// PodDisruptionBudgets that a DeviceTaintRule or DeviceDrain affects.
package impact

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
	"github.com/dra-steward/dra-steward/internal/targets"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/usage"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// guardTimeout is how long the webhook is not ready while the guard reads the cluster for the
// first time. After that it answers everything else, and the guard answers with an error.
const guardTimeout = time.Minute

// Estimator counts what a write would hit: the claims, pods and PodDisruptionBudgets of a
// cluster.
type Estimator struct {
	// Index has who holds which device.
	Index   *usage.Index
	factory informers.SharedInformerFactory
	synced  []cache.DoneChecker
	// Published are the slices, nil where they are not read.
	Published func() iter.Seq[*resourceapi.ResourceSlice]
	started   time.Time
	// drains starts with the factory; nil without sums.
	drains cache.SharedIndexInformer
	// foresight is nil if pods that do not land again are not asked for.
	foresight *Foresight
	// view is nil where slices are not watched; conditions has the nodes with their conditions, and
	// is nil where they are not read.
	view       View
	conditions cache.SharedIndexInformer

	// rules says that DeviceTaintRules are seen once they are stored.
	rules      bool
	beginnings beginnings
}

var _ review.Impacts = (*Estimator)(nil)

// Options configure what an Estimator reads.
type Options struct {
	// Kubeconfig is that of the cluster, empty for the one of this pod.
	Kubeconfig string
	// Published are the slices, nil where they are not read.
	Published func() iter.Seq[*resourceapi.ResourceSlice]
	// Guards reads PodDisruptionBudgets and drains.
	Guards bool
	// View has the devices with their taints; nil where slices are not watched.
	View View
	// Foresight reads nodes and templates, and keeps more of pods and claims, to find out
	// which pods do not land again. It needs the view.
	Foresight bool
	// Conditions reads the conditions of nodes, and the health in the status of pods, for
	// DeviceReactions to them.
	Conditions bool
}

// New prepares them; Run makes them count.
func New(o Options) (*Estimator, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or switch --guard and --pod-deletions off", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	keep := usage.Trim
	if o.Foresight {
		keep = placement.Keep
	}
	if o.Conditions {
		keep = health.Keep(keep)
	}
	i := &Estimator{Index: &usage.Index{}, factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform((&compact.Shared{}).Around(keep))), Published: o.Published, view: o.View, started: time.Now()}
	read := usage.Informers{Claims: i.factory.Resource().V1().ResourceClaims().Informer(), Pods: i.factory.Core().V1().Pods().Informer()}
	if o.Guards {
		read.Budgets = i.factory.Policy().V1().PodDisruptionBudgets().Informer()
		drains, err := ownclient.NewDrainClient(config)
		if err != nil {
			return nil, err
		}
		i.drains = drains.Informer()
		_, err = i.Follow(i.drains)
		if err := errors.Join(i.drains.SetTransform(withoutManagedFields), err); err != nil {
			return nil, err
		}
	}
	if i.synced, _, err = i.Index.Listen(read); err != nil {
		return i, err
	}
	if o.Conditions {
		i.conditions = i.factory.Core().V1().Nodes().Informer()
		if err := i.conditions.SetTransform(health.Keep(placement.Keep)); err != nil {
			return nil, fmt.Errorf("nodes: %w", err)
		}
	}
	if !o.Foresight {
		return i, nil
	}
	var checkers []cache.DoneChecker
	i.foresight, checkers = NewForesight(i.factory, o.View, ListGroups(client.SchedulingV1beta1().RESTClient()))
	i.synced = append(i.synced, checkers...)
	return i, nil
}

// withoutManagedFields saves memory: nothing here reads them.
func withoutManagedFields(object any) (any, error) {
	if drain, is := object.(*v1alpha1.DeviceDrain); is {
		drain.ManagedFields = nil
	}
	return object, nil
}

// Run reads the cluster until ctx ends.
func (i *Estimator) Run(ctx context.Context) error {
	i.factory.StartWithContext(ctx)
	if i.drains != nil {
		i.drains.RunWithContext(ctx)
	}
	<-ctx.Done()
	i.factory.Shutdown()
	return nil
}

// complete returns an error that names what has not been read yet, nil if nothing.
func (i *Estimator) complete() error {
	var missing []string
	for _, checker := range i.synced {
		select {
		case <-checker.Done():
		default:
			missing = append(missing, checker.Name())
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("claims, pods and PodDisruptionBudgets are not synced yet (%s); try again", strings.Join(missing, ", "))
}

// Ready is nil once all has been read, or the wait for it is over.
func (i *Estimator) Ready(*http.Request) error {
	if time.Since(i.started) > guardTimeout {
		return nil
	}
	return i.complete()
}

// devices are those that a drain begins with, none while it is blocked, those that a reaction drains
// now, and those that a roll drains at a time. A rule has no list of its own: its selector is matched
// when it is counted.
func (i *Estimator) devices(object any) ([]usage.DeviceID, error) {
	switch object := object.(type) {
	case *v1alpha1.DeviceDrain:
		return i.resolve(object)
	case *v1alpha1.DeviceReaction:
		return i.sick(object)
	case *v1alpha1.DeviceRoll:
		return i.atATime(object)
	}
	return nil, nil
}

// count counts what an object affects now; devices are its own.
func (i *Estimator) count(object any, devices []usage.DeviceID) (usage.Impact, error) {
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		return i.Index.Impact(object.Spec.DeviceSelector, &object.Spec.Taint), nil
	case *v1alpha1.DeviceDrain, *v1alpha1.DeviceReaction, *v1alpha1.DeviceRoll:
		return i.Index.ImpactOn(slices.Values(devices), nil), nil
	}
	return usage.Impact{}, fmt.Errorf("no impact estimate for %T", object)
}

// siblings are the names of the devices that share counters with those of an object, and that
// it does not select.
func (i *Estimator) siblings(object any, devices []usage.DeviceID) (names []string) {
	of := slices.Values(devices)
	if rule, is := object.(*resourceapi.DeviceTaintRule); is {
		of = selected(rule.Spec.DeviceSelector, i.Published)
	}
	if i.Published == nil || of == nil {
		return nil
	}
	for _, id := range siblings.Of(i.Published(), of) {
		names = append(names, id.String())
	}
	return names
}

// selected are the published devices that a selector selects by name; nil if it selects whole
// pools, of which no device is left out.
func selected(s *resourceapi.DeviceTaintSelector, published func() iter.Seq[*resourceapi.ResourceSlice]) iter.Seq[usage.DeviceID] {
	if s == nil || s.Device == nil || published == nil {
		return nil
	}
	return func(yield func(usage.DeviceID) bool) {
		for slice := range published() {
			id := usage.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: *s.Device}
			if (s.Driver == nil || *s.Driver == id.Driver) && (s.Pool == nil || *s.Pool == id.Pool) && !yield(id) {
				return
			}
		}
	}
}

// Pod returns a pod that names a claim, nil if it does not exist.
func (i *Estimator) Pod(namespace, name string) *corev1.Pod { return i.Index.Pod(namespace, name) }

// ClaimsOf returns the claims that are reserved for a pod.
func (i *Estimator) ClaimsOf(pod *corev1.Pod) (claims []*resourceapi.ResourceClaim, err error) {
	for use := range usage.Uses(pod, i.Index.Claim, true) {
		claims = append(claims, use.Claim)
	}
	return claims, i.complete()
}

// publishedBy counts the devices that a driver publishes, once it is asked.
func (i *Estimator) publishedBy() func(driver string) int {
	if i.Published == nil {
		return nil
	}
	counts := sync.OnceValue(func() map[string]int { return guard.PublishedDevices(i.Published()) })
	return func(driver string) int { return counts()[driver] }
}

// resolve returns the devices that a drain names or selects.
func (i *Estimator) resolve(d *v1alpha1.DeviceDrain) ([]usage.DeviceID, error) {
	var err error
	var published iter.Seq[*resourceapi.ResourceSlice]
	switch {
	case i.Published != nil:
		published = i.Published()
	case d.Spec.WithPartitions:
		err = errors.New("ResourceSlices are not watched: enable liveData (--live-data), or name all partitions")
	}
	found := drain.Resolve(d, func(selector *v1alpha1.DrainSelector) targets.Found {
		if i.Published == nil {
			err = errors.New("ResourceSlices are not watched: enable liveData (--live-data), or name the devices")
			return targets.Found{}
		}
		selection := targets.Select(new(patch.Compiler).Within(patch.SelectionCost), selector, i.Published(), i.Index)
		if selection.More {
			err = errors.New("the selector is too expensive to evaluate: name the driver or the pool")
		}
		return selection
	}, published)
	devices := make([]usage.DeviceID, 0, len(found.Names))
	for _, name := range found.Names {
		devices = append(devices, usage.DeviceID(name))
	}
	return devices, err
}

// Prepared returns the claims that drivers have prepared on a node.
func (i *Estimator) Prepared(node string, drivers []string) (all []validate.PreparedClaim, _ error) {
	for _, driver := range drivers {
		for _, p := range i.Index.Prepared(driver, node)[node] {
			all = append(all, validate.PreparedClaim{Namespace: p.Claim.Namespace, Claim: p.Claim.Name, Pod: p.Pod.Name, Driver: driver})
		}
	}
	return all, i.complete()
}
