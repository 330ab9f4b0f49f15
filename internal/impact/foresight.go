package impact

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/gates"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/placement"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// foresightShare is how long finding out who lands again may take, and the most of the time
// that is left for the request.
const (
	foresightShare = 1500 * time.Millisecond
	foresightPart  = 2
)

// A View is what foresight needs of the devices of a cluster.
type View interface {
	Snapshot() *tracker.Snapshot
	// Minor is the minor version of Kubernetes, 0 if it is not known.
	Minor() int
}

// A Foresight finds out which of the pods that a rule or drain evicts do not land again.
type Foresight struct {
	view View
	// The stores have what [placement.Keep] keeps.
	pods, claims, nodes, templates cache.Store
	// busy is held while one write is worked on: it takes a core.
	busy chan struct{}
}

// NewForesight uses informers of a factory, which have the transform placement.Keep. The
// checkers are done once all is read.
func NewForesight(factory informers.SharedInformerFactory, view View) (*Foresight, []cache.DoneChecker) {
	all := []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(), factory.Resource().V1().ResourceClaims().Informer(),
		factory.Core().V1().Nodes().Informer(), factory.Resource().V1().ResourceClaimTemplates().Informer(),
	}
	checkers := make([]cache.DoneChecker, len(all))
	for i, informer := range all {
		checkers[i] = informer.HasSyncedChecker()
	}
	return &Foresight{view: view, pods: all[0].GetStore(), claims: all[1].GetStore(), nodes: all[2].GetStore(), templates: all[3].GetStore(),
		busy: make(chan struct{}, 1)}, checkers
}

// Stranded returns the pods that do not land again; devices are those of a drain. It never
// takes longer than its share of the time that is left for ctx.
func (f *Foresight) Stranded(ctx context.Context, object any, devices func(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error)) *guard.Stranded {
	share := foresightShare
	if end, has := ctx.Deadline(); has {
		share = min(share, time.Until(end)/foresightPart)
	}
	ctx, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return &guard.Stranded{NotComputed: "other writes are checked"}
	}
	// A simulation that is late ends by itself: the answer does not wait for it.
	found := make(chan *guard.Stranded, 1)
	go func() {
		defer func() { <-f.busy }()
		defer func() {
			if cause := recover(); cause != nil { // the allocator is not ours
				found <- &guard.Stranded{NotComputed: fmt.Sprintf("the allocator of kube-scheduler panics: %v", cause)}
			}
		}()
		found <- f.predict(ctx, object, devices)
	}()
	select {
	case s := <-found:
		return s
	case <-ctx.Done():
		return &guard.Stranded{NotComputed: "it takes longer than " + share.Round(10*time.Millisecond).String()}
	}
}

func (f *Foresight) predict(ctx context.Context, object any, devices func(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error)) *guard.Stranded {
	world := f.world()
	change, err := changeOf(world, object, devices)
	if err != nil {
		return &guard.Stranded{NotComputed: err.Error()}
	}
	answer, err := world.Predict(ctx, change)
	switch {
	case ctx.Err() != nil:
		return &guard.Stranded{NotComputed: "it takes too long"}
	case err != nil:
		return &guard.Stranded{NotComputed: err.Error()}
	}
	s := &guard.Stranded{Pods: answer.Stranded()}
	for _, m := range answer.Moves {
		if m.Verdict != placement.Lands {
			s.Names = append(s.Names, fmt.Sprintf("%s/%s (%s)", m.Namespace, m.Pod, m.Reason.Message))
		}
	}
	return s
}

// world is the cluster now.
func (f *Foresight) world() placement.World {
	minor := f.view.Minor()
	return placement.World{
		View: f.view.Snapshot(), Claims: listed[*resourceapi.ResourceClaim](f.claims), Pods: listed[*corev1.Pod](f.pods), Nodes: listed[*corev1.Node](f.nodes),
		Templates: listed[*resourceapi.ResourceClaimTemplate](f.templates), Gates: gates.Defaults(minor), IncompletePools: minor != 0 && minor < 35,
	}
}

func listed[T any](store cache.Store) []T {
	list := store.List()
	all := make([]T, 0, len(list))
	for _, object := range list {
		if typed, is := object.(T); is {
			all = append(all, typed)
		}
	}
	return all
}

// changeOf is what a write changes.
func changeOf(world placement.World, object any, devices func(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error)) (placement.Change, error) {
	after := world
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		after.View = placement.With(world.View, object)
		return placement.Change{After: after}, nil
	case *v1alpha1.DeviceDrain:
		drained, err := devices(object)
		if err != nil {
			return placement.Change{}, err
		}
		after.View = placement.With(world.View, cordons(object, drained)...)
		return placement.Change{After: after, Leaving: after.Users(drained)}, nil
	}
	return placement.Change{}, errors.New("unexpected kind")
}

// cordons are rules that keep new pods off the devices of a drain: one for each.
func cordons(d *v1alpha1.DeviceDrain, devices map[usage.DeviceID]bool) (rules []any) {
	for id := range devices {
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: d.Name + " " + id.String()}}
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: &id.Driver, Pool: &id.Pool, Device: &id.Device}
		rule.Spec.Taint = resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Value: d.Name, Effect: resourceapi.DeviceTaintEffectNoSchedule}
		rules = append(rules, rule)
	}
	return rules
}
