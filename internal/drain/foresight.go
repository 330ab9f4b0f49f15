package drain

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Foresight finds out which of the pods that a drain of devices evicts do not land again.
type Foresight func(ctx context.Context, d *v1alpha1.DeviceDrain, devices []usage.DeviceID) *guard.Stranded

// podsLand sets the condition PodsLand of a drain that goes on. nil does not change it.
func (c conditions) podsLand(s *guard.Stranded) {
	switch {
	case c.status.CompletionTime != nil:
		meta.RemoveStatusCondition(&c.status.Conditions, v1alpha1.DrainPodsLand)
	case s == nil:
	case !s.Known():
		// The last answer is better than none.
		if c.is(v1alpha1.DrainPodsLand).Type == "" {
			c.set(v1alpha1.DrainPodsLand, false, "NotComputed", "it is unknown whether the pods land again: "+s.NotComputed)
		}
	case s.Pods == 0:
		c.set(v1alpha1.DrainPodsLand, true, "AllLand", "all pods that still have to leave land again")
	default:
		c.set(v1alpha1.DrainPodsLand, false, "Stranded", strings.TrimPrefix(s.Of(s.Pods), "; "))
	}
}
