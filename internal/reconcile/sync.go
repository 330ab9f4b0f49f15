package reconcile

import (
	"context"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// WaitFor waits until informers have what there is, and returns false if ctx ends before. Only a log of
// level debug names them.
func WaitFor(ctx context.Context, what string, checkers ...cache.DoneChecker) bool {
	return cache.WaitFor(klog.NewContext(ctx, klog.FromContext(ctx).V(1)), what, checkers...)
}
