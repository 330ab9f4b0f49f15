package drain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// pace is how many pods are evicted at a time, and how long to wait until the next time.
func pace(spec v1alpha1.DeviceDrainSpec) (batch int, interval time.Duration) {
	rate := v1alpha1.DrainRate
	if spec.EvictionsPerMinute != nil {
		rate = int(*spec.EvictionsPerMinute)
	}
	rate = min(max(rate, 1), v1alpha1.DrainRateMax)
	batch = (rate + 59) / 60
	return batch, time.Duration(batch) * time.Minute / time.Duration(rate)
}

// choose takes the pods to evict now, as the rate, the limits and the budgets allow.
func (d *Decision) choose(in Input, s survey, from time.Time, force bool) {
	if len(s.waiting) == 0 {
		return
	}
	batch, interval := pace(in.Drain.Spec)
	if last := d.Status.LastEvictionTime; last != nil {
		// A time in the future comes from another clock and does not stop the drain.
		if next := last.Add(interval); next.After(in.Now) && !last.After(in.Now.Add(interval)) {
			d.WakeAt(next)
			return
		}
	}
	l, taken := newLimits(in, slices.Concat(s.leaving, s.terminating)), 0
	for _, pod := range s.waiting {
		if taken == batch {
			break
		}
		if pod.DeletionTimestamp != nil { // the limits count it already, and so do its owner and claims
			taken++
			d.Evict = append(d.Evict, v1alpha1.DrainPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Delete: true, GracePeriodSeconds: new(int64(shortGrace))})
			continue
		}
		asks := !force && d.asks(in, pod.Pod)
		if asks && d.full() || !l.take(pod, force || asks) {
			continue
		}
		taken++
		if asks {
			d.ask(in, pod.Pod)
		} else {
			d.Evict = append(d.Evict, v1alpha1.DrainPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Delete: force})
		}
		d.beginAll(in, pod, from)
		d.countOwner(pod)
	}
	if taken > 0 {
		d.Status.Evicting = d.Evict
		d.Status.LastEvictionTime = &metav1.MicroTime{Time: microsecond(in.Now)}
		d.WakeAt(in.Now.Add(interval))
	}
}

// limits count what is on its way out.
type limits struct {
	perNamespace, perNode *int32
	namespaces, nodes     map[string]int
	budgets               map[types.UID]int
}

func newLimits(in Input, leaving []*candidate) *limits {
	l := &limits{perNamespace: in.Drain.Spec.MaxPerNamespace, perNode: in.Drain.Spec.MaxPerNode,
		namespaces: map[string]int{}, nodes: map[string]int{}, budgets: map[types.UID]int{}}
	maps.Copy(l.budgets, in.Spent)
	for _, pod := range leaving {
		l.namespaces[pod.Namespace]++
		l.nodes[pod.Spec.NodeName]++
	}
	return l
}

// take counts a pod in, if nothing is against it. What budgets allow now is shared by the
// pods that are evicted at once, unless that does not matter.
func (l *limits) take(pod *candidate, regardless bool) bool {
	if l.perNamespace != nil && l.namespaces[pod.Namespace] >= int(*l.perNamespace) ||
		l.perNode != nil && l.nodes[pod.Spec.NodeName] >= int(*l.perNode) {
		return false
	}
	if !regardless && len(pod.Budgets) == 1 && !Free(pod.Pod, pod.Budgets[0]) {
		budget := pod.Budgets[0]
		if l.budgets[budget.UID] >= allowance(budget) {
			return false
		}
		l.budgets[budget.UID]++
	}
	l.namespaces[pod.Namespace]++
	l.nodes[pod.Spec.NodeName]++
	return true
}

// countPending adds the outcomes of the pending evictions to the counts. An unknown outcome is
// taken from the pod: one that exists and is not being deleted was not evicted. The rate counts from
// the time when the API server has them: at the latest now, if another process asked for them.
func (d *Decision) countPending(in Input) {
	if last := d.Status.LastEvictionTime; last != nil && len(d.Status.Evicting) > 0 {
		at := in.Evicted
		if at.Before(last.Time) {
			at = in.Now
		}
		d.Status.LastEvictionTime = &metav1.MicroTime{Time: microsecond(later(at, last.Time))}
	}
	pods := in.pods()
	for _, pod := range d.Status.Evicting {
		outcome, known := in.Outcomes[pod.UID]
		if holds, there := pods[pod.UID]; !known && (!there || shows(holds, in, pod)) {
			outcome = Accepted
		}
		switch {
		case outcome != Accepted:
		case pod.Delete:
			d.Status.Counts.Deleted++
		default:
			d.Status.Counts.Evicted++
		}
	}
	d.Status.Evicting = nil
}

// deadline is when the drain times out, zero for never, and what happens then.
func deadline(d *v1alpha1.DeviceDrain) (time.Time, v1alpha1.DeadlineAction) {
	spec := d.Spec.Deadline
	if spec == nil {
		return time.Time{}, ""
	}
	action := spec.Action
	if action == "" {
		action = v1alpha1.DeadlineKeep
	}
	switch {
	case spec.Time != nil:
		return spec.Time.Time, action
	case spec.After != nil:
		return d.CreationTimestamp.Add(spec.After.Duration), action
	}
	return time.Time{}, ""
}

func deadlineText(at time.Time) string {
	return fmt.Sprintf("the deadline passed at %s", clock(at))
}

// maxOwners is how many owners are remembered; the schema has the number, too. Pods of the
// owners beyond count as having no evicted pod.
const maxOwners = 512

// evictedByOwner returns how many pods of each owner were evicted.
func (d *Decision) evictedByOwner() map[types.UID]int {
	evicted := map[types.UID]int{}
	for _, owner := range d.Status.EvictedByOwner {
		evicted[owner.UID] = int(owner.Count)
	}
	return evicted
}

// countOwner counts an eviction for the owner of a pod.
func (d *Decision) countOwner(pod *candidate) {
	owner := controllerOf(pod)
	if owner == nil {
		return
	}
	i := slices.IndexFunc(d.Status.EvictedByOwner, func(t v1alpha1.OwnerEvictions) bool { return t.UID == owner.UID })
	switch {
	case i >= 0:
		d.Status.EvictedByOwner[i].Count++
	case len(d.Status.EvictedByOwner) < maxOwners:
		d.Status.EvictedByOwner = append(d.Status.EvictedByOwner, v1alpha1.OwnerEvictions{UID: owner.UID, Count: 1})
	}
}

// dropOwners forgets owners that have no pods left.
func (d *Decision) dropOwners(pods []*candidate) {
	owners := map[types.UID]bool{}
	for _, pod := range pods {
		if owner := controllerOf(pod); owner != nil {
			owners[owner.UID] = true
		}
	}
	d.Status.EvictedByOwner = slices.DeleteFunc(d.Status.EvictedByOwner, func(t v1alpha1.OwnerEvictions) bool { return !owners[t.UID] })
}
