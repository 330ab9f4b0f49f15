// Package reconcile works on the keys of a queue.
package reconcile

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
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
