package devicedrain_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
)

var begin = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// A world is a small cluster: it does what API server, scheduler, controllers and
// kubelets do, as far as a drain sees of it.
type world struct {
	testing.TB
	now     time.Time
	drain   *v1alpha1.DeviceDrain
	rules   []*resourceapi.DeviceTaintRule
	claims  []*resourceapi.ResourceClaim
	pods    []*corev1.Pod
	budgets []*policyv1.PodDisruptionBudget
	serial  int

	// What the controller remembers and loses when it is killed.
	outcomes map[types.UID]drain.Outcome
	evicted  time.Time
	evicting map[types.UID]bool
	refusals map[types.UID]drain.Refusal

	// accepted are the evictions, by pod, with their times.
	accepted  map[types.UID]time.Time
	times     []time.Time
	decisions int
	// again counts deletions of pods that were terminating, by name.
	again map[string]int
	// grace is how long a pod takes to end, after its grace period if it has one.
	grace time.Duration
	// replace returns the replacement of a pod that has ended.
	replace func(w *world, gone *corev1.Pod, claim *resourceapi.ResourceClaim)
	cannot  string
	limit   guard.Thresholds
	// perPool is how many devices a pool has; 0 is all. others are pools with a device that
	// is not drained.
	perPool int
	others  map[drain.Pool]bool
	// stored is called when a status was written.
	stored func()
}

func newWorld(t testing.TB, devices int, change func(*v1alpha1.DeviceDrainSpec)) *world {
	w := &world{TB: t, now: begin, others: map[drain.Pool]bool{}, stored: func() {}, accepted: map[types.UID]time.Time{}, again: map[string]int{}, grace: 3 * time.Second,
		replace: func(*world, *corev1.Pod, *resourceapi.ResourceClaim) {},
		limit:   guard.Thresholds{Pods: 1000, Namespaces: 1000, Percent: 100}}
	w.drain = &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "firmware", UID: "drain", Generation: 1, CreationTimestamp: metav1.NewTime(begin)}}
	for i := range devices {
		w.drain.Spec.Devices = append(w.drain.Spec.Devices, device(i))
	}
	if change != nil {
		change(&w.drain.Spec)
	}
	w.kill()
	return w
}

func device(i int) v1alpha1.DeviceName {
	return v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: "node", Device: fmt.Sprint("gpu-", i)}
}

func (w *world) device(i int) v1alpha1.DeviceName {
	if w.perPool == 0 {
		return device(i)
	}
	return v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: fmt.Sprintf("node-%03d.rack.example.com", i/w.perPool), Device: fmt.Sprint("gpu-", i%w.perPool)}
}

// kill starts the controller again.
func (w *world) kill() {
	w.outcomes, w.evicting, w.refusals = map[types.UID]drain.Outcome{}, map[types.UID]bool{}, map[types.UID]drain.Refusal{}
	w.evicted = time.Time{}
}

func (w *world) uid(prefix string) types.UID {
	w.serial++
	return types.UID(fmt.Sprint(prefix, "-", w.serial))
}

func (w *world) at() metav1.Time { return metav1.NewTime(w.now.Truncate(time.Second)) }

// claim is allocated with devices; made is true if it is a pod's own.
func (w *world) claim(name string, devices ...int) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: w.uid("claim"), CreationTimestamp: w.at()}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, i := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: w.device(i).Driver, Pool: w.device(i).Pool, Device: w.device(i).Device})
	}
	w.claims = append(w.claims, c)
	return c
}

// pod runs with a claim, or with one of its own for a device.
func (w *world) pod(owner string, claim *resourceapi.ResourceClaim, device int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", UID: w.uid("pod"), CreationTimestamp: w.at(), Labels: map[string]string{"app": owner}}}
	p.Name = fmt.Sprint(owner, "-", w.serial)
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if claim == nil {
		claim = w.claim(p.Name, device)
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	w.pods = append(w.pods, p)
	return p
}

// budget wants a number of an owner's pods to be ready.
func (w *world) budget(name, owner string, minimum int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: w.uid("budget")}}
	b.Spec.MinAvailable = new(intstr.FromInt32(minimum))
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": owner}}
	w.budgets = append(w.budgets, b)
	return b
}

func (w *world) budgetsOf(p *corev1.Pod) (all []*policyv1.PodDisruptionBudget) {
	app := p.Labels["app"]
	for _, b := range w.budgets {
		if b.Spec.Selector.MatchLabels["app"] == app {
			ready := int32(0)
			for _, other := range w.pods {
				if other.DeletionTimestamp == nil && other.Labels["app"] == app {
					ready++
				}
			}
			b.Status.CurrentHealthy, b.Status.DesiredHealthy = ready, b.Spec.MinAvailable.IntVal
			b.Status.DisruptionsAllowed = max(0, ready-b.Spec.MinAvailable.IntVal)
			all = append(all, b.DeepCopy())
		}
	}
	return all
}

func (w *world) input() drain.Input {
	in := drain.Input{Drain: w.drain.DeepCopy(), CannotCordon: w.cannot, Outcomes: w.outcomes, Evicted: w.evicted, Evicting: w.evicting,
		Refusals: w.refusals, Thresholds: w.limit, Now: w.now}
	in.Devices = drain.Resolve(in.Drain, nil, nil)
	in.Rules = drain.Rules(in.Drain, in.Devices, slices.Values(w.rules))
	in.Pools = map[drain.Pool]bool{}
	ours := map[v1alpha1.DeviceName]bool{}
	for _, name := range in.Devices.Names {
		pool := drain.Pool{Driver: name.Driver, Name: name.Pool}
		in.Pools[pool], ours[name] = !w.others[pool], true
	}
	pods, budgets := map[types.UID]*corev1.Pod{}, map[string][]*policyv1.PodDisruptionBudget{}
	for _, p := range w.pods {
		pods[p.UID] = p
		if p.DeletionTimestamp != nil {
			delete(w.evicting, p.UID)
		}
	}
	for _, c := range w.claims {
		if !slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return ours[v1alpha1.DeviceName{Driver: r.Driver, Pool: r.Pool, Device: r.Device}]
		}) {
			continue
		}
		h := drain.Holder{Claim: c}
		for _, r := range c.Status.ReservedFor {
			if p := pods[r.UID]; p != nil {
				if _, known := budgets[p.Labels["app"]]; !known {
					budgets[p.Labels["app"]] = w.budgetsOf(p)
				}
				h.Pods = append(h.Pods, drain.Pod{Pod: p, Budgets: budgets[p.Labels["app"]]})
			}
		}
		in.Holders = append(in.Holders, h)
	}
	return in
}

// step decides once and carries it out as far as a controller comes that may be killed
// in every phase, and returns the decision. A killed one is nil.
func (w *world) step(kill func(phase string) bool) *drain.Decision {
	w.Helper()
	w.decisions++
	d := drain.Decide(w.input())
	if len(d.Create) > 0 && kill("before rules") {
		return nil
	}
	for _, rule := range d.Create {
		rule.CreationTimestamp = w.at()
		w.rules = append(w.rules, rule)
	}
	for _, rule := range d.Correct {
		i := slices.IndexFunc(w.rules, func(r *resourceapi.DeviceTaintRule) bool { return r.Name == rule.Name })
		rule.Spec.Taint.TimeAdded = new(w.at())
		w.rules[i] = rule
	}
	for _, gone := range d.Delete {
		w.rules = slices.DeleteFunc(w.rules, func(r *resourceapi.DeviceTaintRule) bool { return r.Name == gone.Name })
	}
	if kill("before status") {
		return nil
	}
	w.drain.Status = *d.Status.DeepCopy()
	w.stored()
	clear(w.outcomes)
	for _, pod := range d.Evict {
		if kill("before eviction") {
			return nil
		}
		w.evict(pod)
		w.evicted = w.now
		if kill("after eviction") {
			return nil
		}
	}
	return &d
}

// evict is the API server.
func (w *world) evict(pod v1alpha1.DrainPod) {
	w.Helper()
	i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	if i < 0 {
		w.outcomes[pod.UID] = drain.Gone
		return
	}
	p := w.pods[i]
	if p.DeletionTimestamp != nil {
		if short := pod.GracePeriodSeconds; !pod.Delete || short == nil || *short == 0 || *short >= *p.DeletionGracePeriodSeconds {
			w.Errorf("%s: %s is evicted twice: %+v", w.since(), p.Name, pod)
			return
		}
		p.DeletionTimestamp.Time = p.DeletionTimestamp.Add(time.Duration(*pod.GracePeriodSeconds-*p.DeletionGracePeriodSeconds) * time.Second)
		p.DeletionGracePeriodSeconds = pod.GracePeriodSeconds
		w.outcomes[pod.UID], w.again[p.Name] = drain.Accepted, w.again[p.Name]+1
		return
	}
	budgets := w.budgetsOf(p)
	if p.Status.Phase == corev1.PodPending || len(p.Status.Conditions) == 0 {
		budgets = nil // none speaks of it, or it allows all of those that are not ready
	}
	if !pod.Delete && len(budgets) > 1 {
		w.Errorf("%s is evicted with two budgets", p.Name)
	}
	if !pod.Delete && len(budgets) == 1 && budgets[0].Status.DisruptionsAllowed == 0 {
		w.outcomes[pod.UID] = drain.Refused
		w.refusals[pod.UID] = drain.Refusal{Budget: true, Until: w.now.Add(10 * time.Second)}
		return
	}
	w.terminate(p, p.Spec.TerminationGracePeriodSeconds)
	w.outcomes[pod.UID], w.evicting[pod.UID] = drain.Accepted, true
	w.accepted[pod.UID] = w.now
	w.times = append(w.times, w.now)
}

// terminate deletes a pod with a grace period, or none.
func (w *world) terminate(p *corev1.Pod, seconds *int64) {
	p.DeletionTimestamp = new(w.at())
	if seconds != nil {
		p.DeletionTimestamp.Time = p.DeletionTimestamp.Add(time.Duration(*seconds) * time.Second)
		p.DeletionGracePeriodSeconds = seconds
	}
}

func (w *world) since() time.Duration { return w.now.Sub(begin) }

// pass lets time pass: pods end, claims are released, replacements come.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, p := range slices.Clone(w.pods) {
		if p.DeletionTimestamp == nil || p.DeletionTimestamp.Add(w.grace).After(w.now) {
			continue
		}
		w.pods = slices.DeleteFunc(w.pods, func(other *corev1.Pod) bool { return other == p })
		for _, c := range slices.Clone(w.claims) {
			users := len(c.Status.ReservedFor)
			c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
			if len(c.Status.ReservedFor) == users {
				continue
			}
			w.replace(w, p, c)
			if len(c.Status.ReservedFor) == 0 {
				w.claims = slices.DeleteFunc(w.claims, func(other *resourceapi.ResourceClaim) bool { return other == c })
			}
		}
	}
}

// run steps until the drain has ended or the time is over, second by second.
func (w *world) run(most time.Duration, kill func(string) bool) {
	w.Helper()
	for end := w.now.Add(most); w.now.Before(end) && w.drain.Status.CompletionTime == nil; w.pass(time.Second) {
		for {
			d := w.step(kill)
			if d == nil {
				w.kill()
				continue
			}
			if len(d.Create)+len(d.Correct)+len(d.Delete)+len(d.Evict) > 0 || d.Wake.Equal(w.now) {
				continue
			}
			if again := drain.Decide(w.input()).Status; !reflect.DeepEqual(d.Status, again) { // which is faster than a diff
				if diff := cmp.Diff(d.Status, again); diff != "" {
					w.Fatalf("%s: deciding again changes the status:\n%s", w.since(), diff)
				}
			}
			break
		}
	}
}

func never(string) bool { return false }

func sometimes(r *rand.Rand) func(string) bool {
	return func(string) bool { return r.IntN(4) == 0 }
}

func (w *world) condition(kind string) (c metav1.Condition) {
	for _, c := range w.drain.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return c
}

// expect compares conditions, as "Type=True Reason".
func (w *world) expect(want ...string) {
	w.Helper()
	for _, one := range want {
		found := false
		for _, c := range w.drain.Status.Conditions {
			found = found || one == fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		}
		if !found {
			w.Errorf("after %s: no condition %s in:", w.since(), one)
			for _, c := range w.drain.Status.Conditions {
				w.Logf("  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
}
