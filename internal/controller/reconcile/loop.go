// Package reconcile works on the keys of a queue.
package reconcile

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Queue returns a queue whose keys are tried again after a pause when they fail: first, then
// twice as long each time, and at most longest.
func Queue[K comparable](first, longest time.Duration) workqueue.TypedRateLimitingInterface[K] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](first, longest))
}

// Loop reconciles one key of the queue after the other until ctx ends, and shuts the queue
// down then. It reports an error only while ctx goes on.
func Loop[K comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[K], reconcile func(context.Context, K) error, report func(error, K)) {
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	defer queue.ShutDown()
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		switch err := reconcile(ctx, key); {
		case err == nil:
			queue.Forget(key)
		default:
			if ctx.Err() == nil {
				report(err, key)
			}
			queue.AddRateLimited(key)
		}
		queue.Done(key)
	}
}

// Passes calls pass until ctx ends: when something has changed, and when the pass before asked for
// it, but at most once in each gap, so that changes are gathered.
func Passes(ctx context.Context, changed <-chan struct{}, gap time.Duration, pass func(context.Context) (next time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := pass(ctx)
		timer.Reset(gap)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(max(next-gap, 0))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Reset(0)
	}
}

// Wake sends to a channel with room for one, unless what it sent last is still there.
func Wake(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// RefusedForNow reports whether a webhook refused a deletion with the status of a conflict, as
// dra-steward does for the pod of a driver that has prepared claims. All other conflicts of a deletion
// say that another object has the name by now: what was to go has gone.
func RefusedForNow(err error) bool {
	return apierrors.IsConflict(err) && strings.HasPrefix(err.Error(), "admission webhook ")
}

// WaitFor waits until informers have what there is, and returns false if ctx ends before. Only a log of
// level debug names them.
func WaitFor(ctx context.Context, what string, checkers ...cache.DoneChecker) bool {
	return cache.WaitFor(klog.NewContext(ctx, klog.FromContext(ctx).V(1)), what, checkers...)
}

// Written are the objects of a kind that a controller wrote last, by name, until its informer has them.
type Written[T metav1.Object] map[string]T

// Newest is the newer one of what an informer has and what was written, which it forgets otherwise.
func (w Written[T]) Newest(read T) T {
	written, has := w[read.GetName()]
	if has && written.GetUID() == read.GetUID() && Newer(written.GetResourceVersion(), read.GetResourceVersion()) {
		return written
	}
	delete(w, read.GetName())
	return read
}

// Newer reports whether an object with the one resourceVersion was written after one with the other.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
