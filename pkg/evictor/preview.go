package evictor

import resourceapi "k8s.io/api/resource/v1"

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
				if id := (DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}); selects(rule, id) {
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
