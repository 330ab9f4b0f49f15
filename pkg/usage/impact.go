package usage

import (
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// An Impact lists what a taint affects. Lists are in their order, without duplicates.
type Impact struct {
	// Devices are the selected ones that are allocated to an affected claim.
	Devices []DeviceID `json:"devices"`
	// Claims have one of the devices and do not tolerate the taint for good.
	Claims []types.NamespacedName `json:"claims"`
	// Tolerating are the claims that do.
	Tolerating []types.NamespacedName `json:"tolerating"`
	// Pods use one of the claims, are scheduled, and neither finished nor being deleted.
	Pods []types.NamespacedName `json:"pods"`
	// Namespaces are those of the pods.
	Namespaces []string `json:"namespaces"`
	// Budgets are the PodDisruptionBudgets that select one of the pods.
	Budgets []BudgetImpact `json:"budgets"`

	uids []types.UID // of the pods
}

// A BudgetImpact is the effect on one PodDisruptionBudget.
type BudgetImpact struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Pods is how many of the pods it selects, Allowed how many may be disrupted now.
	Pods    int `json:"pods"`
	Allowed int `json:"allowed"`
}

// Impact returns what a taint would hit on the devices that a selector of a
// DeviceTaintRule selects; none for a nil one, all for an empty one. A toleration counts
// only if it names the effect NoExecute and has no seconds: of others the pods are
// evicted by the in-tree controller of 1.37, at once or later. taint may be nil, then
// nothing is tolerated.
func (i *Index) Impact(selector *resourceapi.DeviceTaintSelector, taint *resourceapi.DeviceTaint) Impact {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return i.impact(i.selected(selector), taint)
}

// ImpactOn is Impact for devices that are named.
func (i *Index) ImpactOn(devices iter.Seq[DeviceID], taint *resourceapi.DeviceTaint) Impact {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return i.impact(devices, taint)
}

// selected yields the allocated devices that a selector selects.
func (i *Index) selected(selector *resourceapi.DeviceTaintSelector) iter.Seq[DeviceID] {
	return func(yield func(DeviceID) bool) {
		for id := range i.held(selector) {
			if !yield(id) {
				return
			}
		}
	}
}

// held yields the allocated devices that a selector selects, with the claims that hold each.
func (i *Index) held(selector *resourceapi.DeviceTaintSelector) iter.Seq2[DeviceID, []holding] {
	return func(yield func(DeviceID, []holding) bool) {
		if selector == nil {
			return
		}
		for driver, pools := range only(i.devices, selector.Driver) {
			for name, pool := range only(pools, selector.Pool) {
				for device, holdings := range only(pool, selector.Device) {
					if len(holdings) > 0 && !yield(DeviceID{driver, name, device}, holdings) {
						return
					}
				}
			}
		}
	}
}

// only yields the entry of a key, or all for a nil one.
func only[V any](all map[string]V, key *string) iter.Seq2[string, V] {
	if key == nil {
		return maps.All(all)
	}
	return func(yield func(string, V) bool) {
		if value, ok := all[*key]; ok {
			yield(*key, value)
		}
	}
}

func (i *Index) impact(devices iter.Seq[DeviceID], taint *resourceapi.DeviceTaint) Impact {
	hit := map[DeviceID]struct{}{}
	claims, tolerating := map[types.NamespacedName]struct{}{}, map[types.NamespacedName]struct{}{}
	pods := map[types.NamespacedName]*corev1.Pod{}
	for id := range devices {
		for _, h := range i.holders(id) {
			name := nameOf(h.claim)
			if tolerates(h.claim, id, taint) {
				tolerating[name] = struct{}{}
				continue
			}
			hit[id], claims[name] = struct{}{}, struct{}{}
		}
	}
	for name := range claims {
		delete(tolerating, name) // for another device it does
		for _, pod := range i.podsOf(name) {
			if running(pod) {
				pods[nameOf(pod)] = pod
			}
		}
	}
	impact := Impact{
		Devices:    slices.SortedFunc(maps.Keys(hit), DeviceID.Compare),
		Claims:     slices.SortedFunc(maps.Keys(claims), compareNames),
		Tolerating: slices.SortedFunc(maps.Keys(tolerating), compareNames),
		Pods:       slices.SortedFunc(maps.Keys(pods), compareNames),
	}
	for _, name := range impact.Pods {
		impact.uids = append(impact.uids, pods[name].UID)
	}
	i.addNamespaces(&impact, pods)
	return impact
}

// addNamespaces adds the namespaces of the pods, and their budgets.
func (i *Index) addNamespaces(impact *Impact, pods map[types.NamespacedName]*corev1.Pod) {
	byNamespace := map[string][]*corev1.Pod{}
	for name, pod := range pods {
		byNamespace[name.Namespace] = append(byNamespace[name.Namespace], pod)
	}
	impact.Namespaces = slices.Sorted(maps.Keys(byNamespace))
	for _, namespace := range impact.Namespaces {
		for _, name := range slices.Sorted(maps.Keys(i.budgets[namespace])) {
			budget, n := i.budgets[namespace][name], 0
			for _, pod := range byNamespace[namespace] {
				if budget.selects(pod) {
					n++
				}
			}
			if n > 0 {
				impact.Budgets = append(impact.Budgets, BudgetImpact{namespace, name, n, int(budget.Status.DisruptionsAllowed)})
			}
		}
	}
}

// running reports whether a pod would be evicted if it holds a tainted device.
func running(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// tolerates reports whether every allocation of a device to a claim tolerates a taint
// without an end, as the in-tree eviction controller evaluates it: a toleration without an
// effect does not protect a pod from it.
func tolerates(claim *resourceapi.ResourceClaim, id DeviceID, taint *resourceapi.DeviceTaint) bool {
	if taint == nil || taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
		return false
	}
	evaluator := toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if (DeviceID{result.Driver, result.Pool, result.Device}) == id && !evaluator.Evaluate(result.Tolerations, *taint).Forever() {
			return false
		}
	}
	return true
}

// maxPodNames is how many pods a summary names: who wants all has the Impact.
const maxPodNames = 10

// Summary is the impact in the form that the guard's thresholds, policies and messages use.
// published returns how many devices a driver publishes; nil if that is not known.
func (i Impact) Summary(published func(driver string) int) guard.Impact {
	s := guard.Impact{
		Counts:         guard.Counts{Devices: len(i.Devices), Claims: len(i.Claims), Pods: len(i.Pods), Namespaces: len(i.Namespaces)},
		NamespaceNames: i.Namespaces,
	}
	for _, pod := range i.Pods[:min(len(i.Pods), maxPodNames)] {
		s.PodNames = append(s.PodNames, pod.String())
	}
	for _, b := range i.Budgets {
		s.Budgets = append(s.Budgets, guard.Budget(b))
	}
	for n, device := range i.Devices { // they are in the order of their drivers
		if published != nil && (n == 0 || i.Devices[n-1].Driver != device.Driver) {
			s.DriverDevices += published(device.Driver)
		}
	}
	return s
}

// Hit is the impact for sums over evictions.
func (i Impact) Hit() guard.Hit {
	hit := guard.Hit{Claims: i.Claims}
	for n, uid := range i.uids {
		hit.Pods = append(hit.Pods, guard.Pod{NamespacedName: i.Pods[n], UID: uid})
	}
	for _, id := range i.Devices {
		hit.Devices = append(hit.Devices, guard.Device{Driver: id.Driver, Pool: id.Pool, Name: id.Device})
	}
	return hit
}

// Budgets returns the PodDisruptionBudgets that select a pod, in the order of their names.
func (i *Index) Budgets(pod *corev1.Pod) (all []*policyv1.PodDisruptionBudget) {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	for _, budget := range i.budgets[pod.Namespace] {
		if budget.selects(pod) {
			all = append(all, budget.PodDisruptionBudget)
		}
	}
	slices.SortFunc(all, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return all
}
