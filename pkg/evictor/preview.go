package evictor

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Preview says what rule would do if its effect were NoExecute, by the objects that
// are known now. It evicts nobody.
func (c *Controller) Preview(rule *resourceapi.DeviceTaintRule) Preview {
	now := time.Now()
	its := Taint{DeviceTaint: rule.Spec.Taint, Rule: Rule{Name: rule.Name, UID: rule.UID}, Since: rule.CreationTimestamp.Time}
	its.Effect = resourceapi.DeviceTaintEffectNoExecute
	taints := TaintsFunc(func(id DeviceID) []Taint {
		if selects(rule, id) {
			return []Taint{its}
		}
		return nil
	})
	pods, namespaces := map[types.UID]bool{}, map[string]bool{}
	keys := c.index.allocated(rule)
	for _, key := range keys {
		for _, claim := range c.index.claimsWith(key) {
			for _, pod := range c.index.podsWith(claim.Namespace + "/" + claim.Name) {
				if pods[pod.UID] {
					continue
				}
				verdict := DecidePod(pod, c.index, taints, c.options.Settings, now)
				if c.options.Mode == ModeObserve && verdict.Evict() || c.options.Mode.plan(pod, verdict, time.Time{}).Evict() {
					pods[pod.UID], namespaces[pod.Namespace] = true, true
				}
			}
		}
	}
	return Preview{Published: c.selected(rule), Allocated: len(keys), Pods: len(pods), Namespaces: len(namespaces)}
}

// selected counts the devices in slices that a rule selects, each once.
func (c *Controller) selected(rule *resourceapi.DeviceTaintRule) int {
	snapshot := c.options.Tracker.Snapshot()
	s := rule.Spec.DeviceSelector
	switch {
	case s == nil:
		return 0
	case s.Driver != nil && s.Pool != nil && s.Device != nil:
		if _, published := snapshot.Device(*s.Driver, *s.Pool, *s.Device); published {
			return 1
		}
		return 0
	}
	found := map[DeviceID]bool{}
	count := func(slices []*resourceapi.ResourceSlice) {
		for _, slice := range slices {
			for i := range slice.Spec.Devices {
				if id := (DeviceID{slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name}); selects(rule, id) {
					found[id] = true
				}
			}
		}
	}
	if s.Driver != nil && s.Pool != nil {
		count(snapshot.ByPool(*s.Driver, *s.Pool))
	} else {
		count(snapshot.List(nil))
	}
	return len(found)
}
