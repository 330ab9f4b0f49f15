package devicereaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// step decides the next step of a reaction and takes it: the status, then the drains. It returns
// when to come back.
func (c *Controller) step(ctx context.Context, r *v1alpha1.DeviceReaction, all *cluster) (time.Duration, error) {
	now := time.Now()
	decision := reaction.Decide(c.gather(ctx, r, all, now))
	c.options.Metrics.state(r.Name, decision.Status)
	if !equality.Semantic.DeepEqual(r.Status, decision.Status) {
		if err := c.write(ctx, r, decision.Status); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return gap, nil // another client was faster: decide again
			}
			return 0, err
		}
	}
	wake := period
	if !decision.Wake.IsZero() {
		wake = min(period, max(decision.Wake.Sub(now), gap))
	}
	return wake, c.act(ctx, r, decision, all)
}

// write stores a status, and makes events of what has changed in it.
func (c *Controller) write(ctx context.Context, r *v1alpha1.DeviceReaction, status v1alpha1.DeviceReactionStatus) error {
	changed := r.DeepCopy()
	changed.Status = status
	written, err := c.options.API.UpdateStatus(ctx, changed)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	c.written[r.Name] = written
	for _, kind := range []string{v1alpha1.ReactionPaused, v1alpha1.ReactionFlapping} {
		is, was := meta.FindStatusCondition(status.Conditions, kind), meta.FindStatusCondition(r.Status.Conditions, kind)
		if is == nil || was == nil && is.Status == metav1.ConditionFalse || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		c.options.Logger.Info("DeviceReaction", "reaction", r.Name, "condition", kind, "status", is.Status, "reason", is.Reason, "message", is.Message)
		if is.Status == metav1.ConditionTrue {
			c.event(r, corev1.EventTypeWarning, kind, is.Message)
		} else {
			c.event(r, corev1.EventTypeNormal, is.Reason, "the reaction continues")
		}
	}
	c.foretell(r, status)
	return nil
}

// mostForetold is how many events a step makes about drains that the mode Act creates.
const mostForetold = 8

// foretell makes events of devices that the mode Act drains.
func (c *Controller) foretell(r *v1alpha1.DeviceReaction, status v1alpha1.DeviceReactionStatus) {
	before := map[v1alpha1.DeviceName]v1alpha1.ReactionState{}
	for _, d := range r.Status.Devices {
		before[d.DeviceName] = d.State
	}
	said := 0
	for _, d := range status.Devices {
		if r.Spec.Mode != v1alpha1.ReactionAct && d.State == v1alpha1.ReactionWaiting && before[d.DeviceName] != d.State && said < mostForetold {
			c.event(r, corev1.EventTypeNormal, "Observed", fmt.Sprintf("%s: %s; in the mode Act, the reaction drains it", d.DeviceName, d.Cause))
			said++
		}
	}
}

// act writes the drains. A drain that cannot be written is tried again in the next step, and
// delays no other.
func (c *Controller) act(ctx context.Context, r *v1alpha1.DeviceReaction, decision reaction.Decision, all *cluster) error {
	var errs []error
	for _, drain := range decision.Delete {
		if err := c.options.API.DeleteDrain(ctx, drain.Drain); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete DeviceDrain %s: %w", drain.Drain.Name, err))
			continue
		}
		c.made.Deleted(drain.Drain, time.Now())
		c.options.Metrics.did("delete")
		c.event(r, corev1.EventTypeNormal, "Uncordoned", fmt.Sprintf("deleted DeviceDrain %s of %s: %s", drain.Drain.Name, drain.Drain.Spec.Devices[0], drain.Because))
	}
	for _, drain := range append(decision.Pause, decision.Resume...) {
		written, err := c.options.API.UpdateDrain(ctx, drain)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("update DeviceDrain %s: %w", drain.Name, err))
		default:
			c.made.Wrote(written, time.Now())
			c.options.Metrics.did("update")
		}
	}
	delete(c.notCreated, r.Name)
	for _, drain := range decision.Create {
		created, err := c.options.API.CreateDrain(ctx, drain)
		if err != nil {
			if err = c.taken(drain, err); err != nil {
				if c.notCreated[r.Name] == nil {
					c.notCreated[r.Name] = map[string]string{}
				}
				c.notCreated[r.Name][drain.Name] = err.Error()
			}
			errs = append(errs, err)
			continue
		}
		c.made.Wrote(created, time.Now())
		all.drains = append(all.drains, created)
		c.options.Metrics.did("create")
		c.event(r, corev1.EventTypeNormal, "Draining", fmt.Sprintf("created DeviceDrain %s of %s: %s", drain.Name, drain.Spec.Devices[0], drain.Annotations[v1alpha1.ReasonAnnotation]))
	}
	return errors.Join(append(errs, c.actProofs(ctx, r, decision), c.actRestarts(ctx, r, decision))...)
}

// taken is why a drain was not created. One that exists as the reaction wants it is no error: the
// informer has it soon.
func (c *Controller) taken(drain *v1alpha1.DeviceDrain, err error) error {
	if apierrors.IsAlreadyExists(err) {
		object, exists, _ := c.options.Drains.GetStore().GetByKey(drain.Name)
		if there, is := object.(*v1alpha1.DeviceDrain); !exists || is && there.Labels[v1alpha1.ReactionLabel] == drain.Labels[v1alpha1.ReactionLabel] {
			return nil
		}
		return fmt.Errorf("DeviceDrain %s exists, and is not a drain of the reaction: delete it, or label it with %s=%s", drain.Name, v1alpha1.ReactionLabel, drain.Labels[v1alpha1.ReactionLabel])
	}
	return fmt.Errorf("create DeviceDrain %s: %w", drain.Name, err)
}
