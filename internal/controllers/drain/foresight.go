package drain

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// foresightPeriod is how often a drain asks which pods do not land again.
const foresightPeriod = time.Minute

// A Foresight finds out which of the pods that a drain of devices evicts do not land again.
type Foresight func(ctx context.Context, d *v1alpha1.DeviceDrain, devices []usage.DeviceID) *guard.Stranded

// foreseen is the last answer for a drain, and when it was asked.
type foreseen struct {
	at     time.Time
	answer *guard.Stranded
}

// foresee returns which pods do not land again, for a drain that has begun and goes on. The
// answer of a short time ago is still good: the step that had it need not have written it.
func (c *Controller) foresee(ctx context.Context, name string, now time.Time) *guard.Stranded {
	if c.options.Foresight == nil {
		return nil
	}
	var d *v1alpha1.DeviceDrain
	var last foreseen
	c.locked(func() {
		if last = c.foreseen[name]; now.Sub(last.at) < foresightPeriod {
			return
		}
		if d = c.newest(name); d == nil || d.DeletionTimestamp != nil || d.Status.CompletionTime != nil || len(d.Status.Devices) == 0 {
			d = nil
		}
	})
	if d == nil {
		return last.answer
	}
	var devices []usage.DeviceID
	for _, id := range expand(d.Status.Devices) {
		devices = append(devices, usage.DeviceID(id))
	}
	last = foreseen{now, c.options.Foresight(ctx, d, devices)}
	c.locked(func() { c.foreseen[name] = last })
	return last.answer
}

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
