package impact

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Admit counts what a write affects, by itself and with the evictions of its window, and
// remembers it if decide admits it. The writes of a caller are decided one after the other, so that none is
// admitted by a sum without the others. Those of another caller count once they are stored.
func (i *Estimator) Admit(ctx context.Context, write guard.Write, decide func(guard.Impact) (admitted bool)) error {
	if err := i.complete(); err != nil {
		return err
	}
	devices, err := i.devices(write.Object)
	if err != nil {
		return err
	}
	stranded, siblings := i.stranded(ctx, write.Object, devices), i.siblings(write.Object, devices)
	admitted := i.beginnings.admitted.of(caller.Address(ctx), write.Now)
	admitted.deciding.Lock()
	defer admitted.deciding.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("other writes are checked: %w", err)
	}
	counted, err := i.count(write.Object, devices)
	if err != nil {
		return err
	}
	published := i.publishedBy()
	impact := counted.Summary(published)
	impact.Everything, impact.Stranded, impact.Siblings = everything(write.Object), stranded, siblings
	hit := counted.Hit().Pace(perMinute(write.Object), write.Window.Length)
	write.Window.Published = published
	step := guard.Step{Object: nameOf(write.Object), Hit: hit, Acknowledged: write.Acknowledged, Begins: begins(write.Object, write.Now)}
	if sum, exceeds := write.Window.FirstExcess(write.Now, step, i.beginnings.begun(admitted, write.Now, write.Window.Length)); exceeds {
		impact.Sum = &sum
	}
	if decide(impact) && !write.DryRun {
		one := i.begin(write.Object, write.Now)
		one.admitted = counted.Hit()
		admitted.add(one, write.Bytes, i.follows(write.Object))
	}
	return nil
}

// follows reports whether this process sees an object once it is stored.
func (i *Estimator) follows(object any) bool {
	switch object.(type) {
	case *resourceapi.DeviceTaintRule:
		return i.rules
	case *v1alpha1.DeviceDrain:
		return i.drains != nil
	}
	return false
}

// stranded returns the pods that do not land again, nil if that is not asked. Where no pods
// leave there is nothing to find out.
func (i *Estimator) stranded(ctx context.Context, object any, devices []usage.DeviceID) *guard.Stranded {
	if i.foresight == nil {
		return nil
	}
	if counted, err := i.count(object, devices); err == nil && len(counted.Pods) == 0 {
		return &guard.Stranded{}
	}
	return i.foresight.Stranded(ctx, object, devices)
}

// everything reports whether an object selects all devices.
func everything(object any) bool {
	rule, is := object.(*resourceapi.DeviceTaintRule)
	return is && guard.Everything(rule.Spec.DeviceSelector)
}

// perMinute bounds the pods that an object evicts; 0 does not.
func perMinute(object any) int {
	switch object := object.(type) {
	case *v1alpha1.DeviceDrain:
		return int(ptr.Deref(object.Spec.EvictionsPerMinute, 0))
	case *v1alpha1.DeviceReaction:
		return int(ptr.Deref(object.Spec.Then.EvictionsPerMinute, 0))
	case *v1alpha1.DeviceRoll:
		return int(ptr.Deref(object.Spec.Drain.EvictionsPerMinute, 0))
	}
	return 0
}

// begin is the eviction of an object from a time on.
func (i *Estimator) begin(object any, at time.Time) beginning {
	b := beginning{object: nameOf(object), at: at, affects: i.hits(object)}
	if object, is := object.(metav1.Object); is {
		b.generation = object.GetGeneration()
	}
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		taint := object.Spec.Taint
		taint.TimeAdded = nil
		b.spec = resourceapi.DeviceTaintRuleSpec{DeviceSelector: object.Spec.DeviceSelector, Taint: taint}
		if due := guard.Begins(object, at); due.After(at) {
			b.due = due
		}
	case *v1alpha1.DeviceDrain:
		b.spec, b.perMinute = []any{object.Spec.Devices, object.Spec.Selector, object.Spec.WithPartitions}, perMinute(object)
		b.windows, b.drain = object.Spec.Windows, object
	case *v1alpha1.DeviceReaction:
		b.spec, b.perMinute = []any{object.Spec.When, object.Spec.Selector, object.Spec.Then.WithPartitions}, perMinute(object)
	case *v1alpha1.DeviceRoll:
		b.spec, b.perMinute = []any{object.Spec.Driver, object.Spec.Nodes, object.Spec.AtATime, object.Spec.PerLabel}, perMinute(object)
	}
	return b
}

// hits returns what an object affects whenever it is asked; nothing while that cannot be
// counted.
func (i *Estimator) hits(object any) func() guard.Hit {
	return func() guard.Hit {
		if i.complete() != nil {
			return guard.Hit{}
		}
		devices, err := i.devices(object)
		if err != nil {
			return guard.Hit{}
		}
		counted, err := i.count(object, devices)
		if err != nil {
			return guard.Hit{}
		}
		return counted.Hit()
	}
}

// FollowRules makes the estimator see the DeviceTaintRules that are stored, so that what other
// replicas admitted counts, too. The caller runs the informer.
func (i *Estimator) FollowRules(rules cache.SharedIndexInformer) error {
	i.rules = true
	_, err := i.Follow(rules)
	return err
}

// Follow makes the estimator remember the evictions of the DeviceTaintRules or DeviceDrains of an informer. The caller runs it.
func (i *Estimator) Follow(informer cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { i.Stored(object, time.Now()) },
		UpdateFunc: func(_, object any) { i.Stored(object, time.Now()) },
		DeleteFunc: func(object any) {
			i.beginnings.arrive(time.Now()) // it may have evicted
			i.Deleted(object)
		},
	})
}

// Begun are the evictions that began within a window, as far as objects are stored.
func (i *Estimator) Begun(now time.Time, window time.Duration) guard.Begun {
	return i.beginnings.begun(nil, now, window)
}

// Stored takes over how a rule or drain is stored, unless a newer one is known: an informer can be behind what a controller has
// written.
func (i *Estimator) Stored(object any, now time.Time) {
	stored, is := object.(metav1.Object)
	if !is {
		return
	}
	i.beginnings.storing.Lock()
	defer i.beginnings.storing.Unlock()
	name := nameOf(object)
	seen := i.beginnings.seen[name]
	if seen != nil && reconcile.Newer(seen.GetResourceVersion(), stored.GetResourceVersion()) {
		return
	}
	if i.beginnings.seen == nil {
		i.beginnings.seen = map[string]metav1.Object{}
	}
	i.beginnings.seen[name] = stored
	if seen == nil || seen.GetUID() != stored.GetUID() {
		i.changed(nil, object, now)
		return
	}
	i.changed(seen, object, now)
}

// changed takes over a change of an object; old is nil for one that is new here.
func (i *Estimator) changed(old, object any, now time.Time) {
	var evicts, widens bool
	i.beginnings.arrive(now)
	one := i.begin(object, now)
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		before, _ := old.(*resourceapi.DeviceTaintRule)
		evicts, widens = guard.Widens(nil, object, now), guard.Widens(before, object, now)
		if old == nil {
			one.at = ruleBegan(object, now)
		}
		if widens || !evicts {
			i.beginnings.wait(one, evicts)
		}
	case *v1alpha1.DeviceDrain:
		before, _ := old.(*v1alpha1.DeviceDrain)
		evicts = guard.WidensDrain(nil, object) && object.Status.CompletionTime == nil
		widens = evicts && (guard.WidensDrain(before, object) || opens(before, object))
		if old == nil {
			one.at = drainBegan(object, now)
		} else {
			one.before = evicted(object)
		}
		i.beginnings.wait(one, evicts)
	default:
		return
	}
	switch {
	case widens && one.due.IsZero() && now.Sub(one.at) < guard.MaxWindow:
		i.beginnings.observe(one)
	case evicts && !widens:
		i.beginnings.follow(one)
	case !evicts || !one.due.IsZero():
		i.beginnings.end(one)
	}
}

// Deleted notes that a rule or drain is gone.
func (i *Estimator) Deleted(object any) {
	if gone, is := object.(cache.DeletedFinalStateUnknown); is {
		object = gone.Obj
	}
	stored, is := object.(metav1.Object)
	if !is {
		return
	}
	i.beginnings.storing.Lock()
	defer i.beginnings.storing.Unlock()
	name := nameOf(object)
	if seen := i.beginnings.seen[name]; seen != nil && seen.GetUID() != stored.GetUID() {
		return // another one has its name
	}
	delete(i.beginnings.seen, name)
	one := beginning{object: name}
	one.drain, _ = object.(*v1alpha1.DeviceDrain)
	i.beginnings.wait(one, false)
	i.beginnings.end(one)
}

// ruleBegan returns when a rule that was not seen before began to evict, not before its timeAdded;
// now if that is not stored, or is in the future.
func ruleBegan(rule *resourceapi.DeviceTaintRule, now time.Time) time.Time {
	began, known := guard.Began(rule)
	if began = guard.Begins(rule, began); known && !began.After(now) {
		return began
	}
	return now
}

// drainBegan is the same for a drain, whose status its controller writes.
func drainBegan(d *v1alpha1.DeviceDrain, now time.Time) time.Time {
	draining := apimeta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainDraining)
	opened := draining != nil && draining.Status == metav1.ConditionTrue
	if d.Generation <= 1 && !opened {
		return d.CreationTimestamp.Time
	}
	if draining == nil || draining.ObservedGeneration != d.Generation {
		return now
	}
	return draining.LastTransitionTime.Time
}

// nameOf is how messages name an object.
func nameOf(object any) string {
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		return "DeviceTaintRule " + object.Name
	case *v1alpha1.DeviceDrain:
		return v1alpha1.DeviceDrainKind + " " + object.Name
	case *v1alpha1.DeviceReaction:
		return v1alpha1.DeviceReactionKind + " " + object.Name
	case *v1alpha1.DeviceRoll:
		return v1alpha1.DeviceRollKind + " " + object.Name
	}
	return ""
}
