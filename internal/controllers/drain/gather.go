package drain

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/siblings"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// gather finds out what there is to decide about.
func (c *Controller) gather(d *v1alpha1.DeviceDrain, now time.Time) Input {
	in := Gather(d, c.options.Tracker.Snapshot(), c.options.Usage, &c.compiler)
	in.Now, in.Settings, in.Thresholds = now, c.options.Settings, c.options.Thresholds
	in.CannotCordon = c.refused(now)
	in.Outcomes, in.Evicting, in.Refusals = c.answers.outcomes[d.Name], c.answers.evicting, c.answers.refusals
	in.Evicted = c.answers.evicted[d.Name]
	in.Asked, in.Spent = c.askedByOthers(d.Name, now), c.spent()
	in.Rules = Rules(d, in.Devices, c.storedRules())
	return in
}

// askedByOthers are the pods that other drains evict now: those of steps in progress, and
// those in the status of a drain whose step has ended, or ended with another process, which
// the next step of that drain counts.
func (c *Controller) askedByOthers(name string, now time.Time) map[types.UID]bool {
	asked := map[types.UID]bool{}
	for other, pods := range c.asking {
		for _, pod := range pods {
			asked[pod.UID] = asked[pod.UID] || other != name
		}
	}
	for _, other := range c.informer.GetStore().ListKeys() {
		if other == name {
			continue
		}
		d := c.newest(other)
		if d == nil {
			continue
		}
		for _, request := range d.Status.Requested {
			asked[request.UID] = asked[request.UID] || request.Fallback == ""
		}
		if d.Status.LastEvictionTime == nil || now.Sub(d.Status.LastEvictionTime.Time) > 2*stepTimeout {
			continue // its status is probably not writable: other drains continue after a while
		}
		for _, pod := range d.Status.Evicting {
			asked[pod.UID] = true
		}
	}
	return asked
}

// spent counts the evictions that the status of their budget does not show yet: those in
// progress, and those that were accepted. Without it drains that share a budget would all
// spend what it allows.
func (c *Controller) spent() map[types.UID]int {
	pods := map[types.UID]types.NamespacedName{}
	for uid := range c.answers.evicting {
		if _, again := c.answers.again[uid]; again {
			continue // its budget counted it when it began to terminate
		}
		pods[uid] = c.answers.names[uid]
	}
	for _, asking := range c.asking {
		for _, pod := range asking {
			pods[pod.UID] = podName(pod.Namespace, pod.Name)
		}
	}
	spent := map[types.UID]int{}
	for uid, name := range pods {
		pod := c.options.Usage.Pod(name.Namespace, name.Name)
		if pod == nil || pod.UID != uid || pod.Status.Phase == corev1.PodPending {
			continue
		}
		for _, budget := range c.options.Usage.Budgets(pod) {
			if _, shown := budget.Status.DisruptedPods[pod.Name]; !shown && !free(Pod{Pod: pod}, budget) {
				spent[budget.UID]++
			}
		}
	}
	return spent
}

// storedRules are all DeviceTaintRules.
func (c *Controller) storedRules() iter.Seq[*resourceapi.DeviceTaintRule] {
	return func(yield func(*resourceapi.DeviceTaintRule) bool) {
		for _, object := range c.options.TaintRules.GetStore().List() {
			if rule, ok := object.(*resourceapi.DeviceTaintRule); ok && !yield(rule) {
				return
			}
		}
	}
}

// Gather finds out which devices a drain is about, and who holds them. What it does not
// know (rules, answers, settings and the time) it leaves empty.
func Gather(d *v1alpha1.DeviceDrain, view *tracker.Snapshot, holders *usage.Index, compiler *patch.Compiler) Input {
	in := Input{Drain: d}
	in.Devices = Resolve(d, func(selector *v1alpha1.DrainSelector) patch.Selection {
		return compiler.Select(selector, view.PublishedSlices(), 0)
	}, view.PublishedSlices())
	for _, id := range siblings.Of(view.PublishedSlices(), ids(in.Devices.Names)) {
		in.Siblings = append(in.Siblings, id.String())
	}
	claims, drivers, devices := map[types.UID]bool{}, map[string]bool{}, map[Pool]map[string]bool{}
	for _, name := range in.Devices.Names {
		drivers[name.Driver] = true
		if devices[poolOf(name)] == nil {
			devices[poolOf(name)] = map[string]bool{}
		}
		devices[poolOf(name)][name.Device] = true
		if _, published := view.Device(name.Driver, name.Pool, name.Device); !published {
			in.Unpublished++
		}
		held := holders.Claims(usage.DeviceID(name))
		if len(held) > 0 {
			in.HeldDevices++
		}
		for _, claim := range held {
			if claims[claim.UID] {
				continue
			}
			claims[claim.UID] = true
			holder := Holder{Claim: claim}
			for _, pod := range holders.Pods(claim.Namespace, claim.Name) {
				holder.Pods = append(holder.Pods, Pod{Pod: pod, Budgets: holders.Budgets(pod)})
			}
			in.Holders = append(in.Holders, holder)
		}
	}
	in.Pools = map[Pool]bool{}
	for slice := range view.PublishedSlices() {
		if drivers[slice.Spec.Driver] {
			in.DriverDevices += len(slice.Spec.Devices)
			in.addPool(slice, devices)
		}
	}
	return in
}

// addPool notes whether the pool of a slice has devices of the drain, and others.
func (in *Input) addPool(slice *resourceapi.ResourceSlice, ours map[Pool]map[string]bool) {
	pool := Pool{slice.Spec.Driver, slice.Spec.Pool.Name}
	if ours[pool] == nil || len(slice.Spec.Devices) == 0 {
		return
	}
	alone, known := in.Pools[pool]
	alone = alone || !known
	for i := range slice.Spec.Devices {
		alone = alone && ours[pool][slice.Spec.Devices[i].Name]
	}
	in.Pools[pool] = alone
}
