package devicedrain

import (
	"context"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// foresightPeriod is how often a drain asks which pods do not land again, foresightRetry after how long the first time if
// that could not be computed: twice as long each time.
const (
	foresightPeriod = time.Minute
	foresightRetry  = 5 * time.Second
)

// prediction is the last answer for a drain, and when it is asked again, after which pause.
type prediction struct {
	next   time.Time
	pause  time.Duration
	answer *guard.Stranded
}

// then is what follows an answer to a question that was asked now.
func (p prediction) then(answer *guard.Stranded, now time.Time) prediction {
	pause := foresightPeriod
	if !answer.Known() {
		pause = min(max(2*p.pause, foresightRetry), foresightPeriod)
		if p.answer.Known() {
			pause = foresightRetry
		}
	}
	return prediction{now.Add(pause), pause, answer}
}

// again returns the answer, and when to ask again if it is not known.
func (p prediction) again(now time.Time) (*guard.Stranded, time.Duration) {
	if p.answer == nil || p.answer.Known() {
		return p.answer, 0
	}
	return p.answer, max(p.next.Sub(now), 0)
}

// foresee returns which pods do not land again, for a drain that has begun and goes on, and when to ask again if that is
// not known. The answer of a short time ago is still good: the step that had it need not have written it.
func (c *Controller) foresee(ctx context.Context, name string, now time.Time) (stranded *guard.Stranded, again time.Duration) {
	if c.options.Foresight == nil {
		return nil, 0
	}
	var d *v1alpha1.DeviceDrain
	var last prediction
	c.locked(func() {
		if last = c.predictions[name]; now.Before(last.next) {
			return
		}
		if d = c.newest(name); d == nil || d.DeletionTimestamp != nil || d.Status.CompletionTime != nil || len(d.Status.Devices) == 0 {
			d = nil
		}
	})
	if d == nil {
		return last.again(now)
	}
	var devices []usage.DeviceID
	for id := range drain.Expand(d.Status.Devices) {
		devices = append(devices, usage.DeviceID(id))
	}
	last = last.then(c.options.Foresight(ctx, d, devices), now)
	c.locked(func() { c.predictions[name] = last })
	return last.again(now)
}
