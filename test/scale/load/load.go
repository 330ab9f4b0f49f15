// Package load writes a world to an API server, as fast as that takes it, and keeps what etcd
// has of it for the next run.
package load

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/scale"
)

// writers is how many writes are under way. More wait in the API server.
const writers = 32

// Stats are what a load took.
type Stats struct {
	// Objects are those of the world, Writes the requests that created them or set their status.
	// An object that was there costs none.
	Objects, Writes int64
	Took            time.Duration
}

// String has the rate of writes.
func (s Stats) String() string {
	return fmt.Sprintf("%d objects with %d writes in %v, %.0f writes a second", s.Objects, s.Writes, s.Took.Round(100*time.Millisecond), float64(s.Writes)/s.Took.Seconds())
}

// A loader counts what it writes.
type loader struct {
	client          client.Client
	objects, writes atomic.Int64
}

// Cluster writes the objects of a cluster that the API server does not have. A load that was
// interrupted is continued by another call. Types of ours must be served. What is loaded is
// printed to out.
func Cluster(ctx context.Context, config *rest.Config, w scale.Cluster, out io.Writer) (Stats, error) {
	l, err := newLoader(config)
	if err != nil {
		return Stats{}, err
	}
	begin := time.Now()
	for _, stage := range []struct {
		name string
		all  iter.Seq[func(context.Context) error]
	}{{"namespaces and classes", l.first(w)}, {"nodes, slices, budgets, rules and patches", l.second(w)}, {"claims and pods", l.workloads(w)}} {
		before, at := l.writes.Load(), time.Now()
		if err := parallel(ctx, stage.all); err != nil {
			return Stats{}, fmt.Errorf("load %s: %w", stage.name, err)
		}
		stats := Stats{Objects: l.objects.Load(), Writes: l.writes.Load() - before, Took: time.Since(at)}
		fmt.Fprintf(out, "%s: %s: %v\n", w, stage.name, stats)
	}
	return Stats{Objects: l.objects.Load(), Writes: l.writes.Load(), Took: time.Since(begin)}, nil
}

func newLoader(config *rest.Config) (*loader, error) {
	config = rest.CopyConfig(config)
	// The client chooses protobuf itself for the types that have it.
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(v1alpha1.GroupVersion(), &v1alpha1.ResourceSlicePatch{}, &v1alpha1.ResourceSlicePatchList{})
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion())
	c, err := client.New(config, client.Options{Scheme: scheme})
	return &loader{client: c}, err
}

// parallel calls all functions, some at a time, and returns the first error.
func parallel(ctx context.Context, all iter.Seq[func(context.Context) error]) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for one := range all {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return one(ctx) })
	}
	return group.Wait()
}

// first yields what other objects need.
func (l *loader) first(w scale.Cluster) iter.Seq[func(context.Context) error] {
	return func(yield func(func(context.Context) error) bool) {
		_ = yield(l.stored(scale.Class(scale.GPUDriver))) && yield(l.stored(scale.Class(scale.NICDriver))) &&
			each(w.Namespaces(), func(i int) bool { return yield(l.stored(w.Namespace(i))) })
	}
}

func (l *loader) second(w scale.Cluster) iter.Seq[func(context.Context) error] {
	return func(yield func(func(context.Context) error) bool) {
		_ = each(w.Namespaces(), func(i int) bool { return yield(l.stored(w.Template(i))) && yield(l.budget(w.Budget(i))) }) &&
			each(w.Nodes, func(i int) bool {
				return yield(l.stored(w.Node(i))) && yield(l.stored(w.GPUs(i))) && yield(l.stored(w.NICs(i)))
			}) &&
			each(scale.Rules, func(i int) bool { return yield(l.stored(w.Rule(i))) }) &&
			each(scale.Patches, func(i int) bool { return yield(l.stored(w.Patch(i))) })
	}
}

func (l *loader) workloads(w scale.Cluster) iter.Seq[func(context.Context) error] {
	return func(yield func(func(context.Context) error) bool) {
		_ = each(w.Claims(), func(i int) bool {
			return yield(func(ctx context.Context) error { return l.workload(ctx, w, i, 0) })
		})
	}
}

// each calls do for 0 to n-1 until it returns false, and reports whether it never did.
func each(n int, do func(int) bool) bool {
	for i := range n {
		if !do(i) {
			return false
		}
	}
	return true
}

func (l *loader) stored(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return l.store(ctx, object) }
}

// store creates an object, or reads the one that is there.
func (l *loader) store(ctx context.Context, object client.Object) error {
	l.objects.Add(1)
	l.writes.Add(1)
	err := l.client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		l.writes.Add(-1)
		err = l.client.Get(ctx, client.ObjectKeyFromObject(object), object)
	}
	if err != nil {
		return fmt.Errorf("%T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// status writes the status of an object.
func (l *loader) status(ctx context.Context, object client.Object) error {
	l.writes.Add(1)
	if err := l.client.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("status of %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

func (l *loader) budget(budget *policyv1.PodDisruptionBudget) func(context.Context) error {
	return func(ctx context.Context) error {
		want := budget.Status
		if err := l.store(ctx, budget); err != nil || budget.Status.ObservedGeneration > 0 {
			return err
		}
		budget.Status = want
		return l.status(ctx, budget)
	}
}

// workload writes a pod that runs and its claim, which is allocated.
func (l *loader) workload(ctx context.Context, w scale.Cluster, i, round int) error {
	pod, claim := w.Workload(i, round)
	running, allocated := pod.Status, claim.Status
	if err := l.store(ctx, pod); err != nil {
		return err
	}
	claim.Status = allocated
	scale.Bind(claim, pod)
	allocated = claim.Status
	if err := l.store(ctx, claim); err != nil {
		return err
	}
	if claim.Status.Allocation == nil {
		claim.Status = allocated
		if err := l.status(ctx, claim); err != nil {
			return err
		}
	}
	if pod.Status.Phase == corev1.PodRunning {
		return nil
	}
	pod.Status = running
	return l.status(ctx, pod)
}
