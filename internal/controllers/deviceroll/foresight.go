package deviceroll

import (
	"context"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// foresightPeriod is how long an answer of Foresight counts.
const foresightPeriod = time.Minute

// A landing is how many pods do not land again, at a time.
type landing struct {
	at       time.Time
	stranded int
}

// foresee returns how many pods of a node do not land again when its devices are drained, 0 where that is not
// known.
func (c *Controller) foresee(ctx context.Context, r *v1alpha1.DeviceRoll, node string, devices []v1alpha1.DeviceName, now time.Time) int {
	maps.DeleteFunc(c.landings, func(_ string, l landing) bool { return now.Sub(l.at) >= foresightPeriod })
	key := r.Name + "/" + node
	if last, has := c.landings[key]; has {
		return last.stranded
	}
	var ids []usage.DeviceID
	for _, name := range devices {
		ids = append(ids, usage.DeviceID(name))
	}
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: roll.DrainName(r.Name, node)}, Spec: r.Spec.Drain.Of(devices...)}
	answer := landing{at: now}
	if found := c.options.Foresight(ctx, drain, ids); found.Known() {
		answer.stranded = found.Pods
	}
	c.landings[key] = answer
	return answer.stranded
}
