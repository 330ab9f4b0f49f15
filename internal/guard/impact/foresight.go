package impact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
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
	// Gates are the feature gates of a cluster of that minor version, as far as they are known.
	Gates(minor int) gates.Gates
}

// A Foresight finds out which of the pods that a rule or drain evicts do not land again.
type Foresight struct {
	view View
	// The stores have what [placement.Keep] keeps.
	pods, claims, nodes, templates cache.Store
	groups                         Groups
	// busy is held while one write is worked on: it takes a core.
	busy chan struct{}
}

// Groups returns the PodGroups of all namespaces.
type Groups func(ctx context.Context) ([]*schedulingapi.PodGroup, error)

// The bounds of the PodGroups that are read for one answer, which tenants create: their number, and their bytes as they
// are stored.
const (
	maxGroups     = 10_000
	maxGroupBytes = 32 << 20
)

// ListGroups lists them with a client of their API group, an error if they are beyond the bounds. There is no informer for
// them: most clusters have none, and many API servers do not serve them.
func ListGroups(client rest.Interface) Groups {
	return func(ctx context.Context) (all []*schedulingapi.PodGroup, err error) {
		answer, err := client.Get().Resource("podgroups").VersionedParams(&metav1.ListOptions{Limit: maxGroups}, scheme.ParameterCodec).Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer answer.Close()
		data, err := io.ReadAll(io.LimitReader(answer, maxGroupBytes+1))
		if err != nil {
			return nil, err
		}
		if len(data) > maxGroupBytes {
			return nil, fmt.Errorf("they take more than %d MiB", maxGroupBytes>>20)
		}
		list := &schedulingapi.PodGroupList{}
		if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), data, list); err != nil {
			return nil, err
		}
		if list.Continue != "" {
			return nil, fmt.Errorf("there are more than %d", maxGroups)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		return all, nil
	}
}

// NewForesight uses informers of a factory, which have the transform placement.Keep. The
// checkers are done once all is read. PodGroups are read if pods are in some.
func NewForesight(factory informers.SharedInformerFactory, view View, groups Groups) (*Foresight, []cache.DoneChecker) {
	all := []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(), factory.Resource().V1().ResourceClaims().Informer(),
		factory.Core().V1().Nodes().Informer(), factory.Resource().V1().ResourceClaimTemplates().Informer(),
	}
	checkers := make([]cache.DoneChecker, len(all))
	for i, informer := range all {
		checkers[i] = informer.HasSyncedChecker()
	}
	return &Foresight{view: view, pods: all[0].GetStore(), claims: all[1].GetStore(), nodes: all[2].GetStore(), templates: all[3].GetStore(),
		groups: groups, busy: make(chan struct{}, 1)}, checkers
}

// Stranded returns the pods that do not land again; devices are those of a drain. It never
// takes longer than its share of the time that is left for ctx.
func (f *Foresight) Stranded(ctx context.Context, object any, devices []usage.DeviceID) *guard.Stranded {
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

func (f *Foresight) predict(ctx context.Context, object any, devices []usage.DeviceID) *guard.Stranded {
	cluster := f.cluster()
	grouped, unread := f.readGroups(ctx, &cluster)
	change, err := changeOf(cluster, object, devices)
	if err != nil {
		return &guard.Stranded{NotComputed: err.Error()}
	}
	answer, err := cluster.Predict(ctx, change)
	switch {
	case ctx.Err() != nil:
		return &guard.Stranded{NotComputed: "it takes too long"}
	case err != nil:
		return &guard.Stranded{NotComputed: err.Error()}
	}
	s := &guard.Stranded{Pods: answer.Stranded()}
	for _, m := range answer.Moves {
		if unread != nil && grouped[types.NamespacedName{Namespace: m.Namespace, Name: m.Pod}] {
			return &guard.Stranded{NotComputed: "PodGroups cannot be read: " + unread.Error()}
		}
		if m.Verdict != placement.Lands {
			s.Names = append(s.Names, fmt.Sprintf("%s/%s (%s)", m.Namespace, m.Pod, m.Reason.Message))
		}
	}
	return s
}

// readGroups adds the PodGroups to a cluster if pods are in some, and returns these pods. The error
// is about these only.
func (f *Foresight) readGroups(ctx context.Context, cluster *placement.Cluster) (grouped map[types.NamespacedName]bool, err error) {
	grouped = map[types.NamespacedName]bool{}
	for _, pod := range cluster.Pods {
		if pod.Spec.SchedulingGroup != nil {
			grouped[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = true
		}
	}
	if len(grouped) > 0 {
		cluster.Groups, err = f.groups(ctx)
	}
	return grouped, err
}

// cluster returns the cluster now.
func (f *Foresight) cluster() placement.Cluster {
	minor := f.view.Minor()
	return placement.Cluster{
		View: f.view.Snapshot(), Claims: placement.Stored[*resourceapi.ResourceClaim](f.claims), Pods: placement.Stored[*corev1.Pod](f.pods), Nodes: placement.Stored[*corev1.Node](f.nodes),
		Templates: placement.Stored[*resourceapi.ResourceClaimTemplate](f.templates), Gates: f.view.Gates(minor), IncompletePools: minor != 0 && minor < 35, Now: time.Now(),
	}
}

// changeOf is what a write changes.
func changeOf(cluster placement.Cluster, object any, devices []usage.DeviceID) (placement.Change, error) {
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		return cluster.With(object), nil
	case *v1alpha1.DeviceDrain:
		return drained(cluster, object, devices), nil
	case *v1alpha1.DeviceReaction: // its drains are one for each device, at the same time
		return drained(cluster, &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: object.Name}}, devices), nil
	case *v1alpha1.DeviceRoll: // its drains are those of the nodes that it drains at a time
		return drained(cluster, &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: object.Name}}, devices), nil
	}
	return placement.Change{}, errors.New("it is not computed for objects of this kind")
}

// drained returns a change in which a drain has cordoned devices, and evicts from them.
func drained(cluster placement.Cluster, d *v1alpha1.DeviceDrain, devices []usage.DeviceID) placement.Change {
	drained := make(map[usage.DeviceID]bool, len(devices))
	cordons := make([]any, 0, len(devices))
	for _, id := range devices {
		drained[id] = true
		cordons = append(cordons, drain.Rule(d, v1alpha1.DeviceName(id)))
	}
	return cluster.Drained(cordons, func(id usage.DeviceID) bool { return drained[id] })
}
