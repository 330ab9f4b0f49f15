package mutate

import "github.com/dra-steward/dra-steward/api/v1alpha1"

// DeviceDrain lists the defaults for DeviceDrains. Append yours here and put its examples
// into examples/<ID>.txtar.
func DeviceDrain() Table[v1alpha1.DeviceDrain] {
	return Table[v1alpha1.DeviceDrain]{
		{
			ID: "drain-settings",
			Doc: `Settings of a drain that are not set get their defaults.

The defaults are 60 evictions per minute, order by Priority and then OwnerSpread, pods
without a controller stay, the cordon stays at the end, and evictions stop at the deadline.
With the defaults written out, the stored drain shows what it does.`,
			Upstream: "leaves them absent",
			Source:   "docs/drain.md, Rate, limits and order",
			Apply:    drainSettings,
		},
	}
}

func drainSettings(w Write[v1alpha1.DeviceDrain], _ Settings) (r Result, _ error) {
	set := func(pointer string, value any) {
		r.Changes = append(r.Changes, Change{Pointer: "/spec/" + pointer, Value: value})
	}
	s := &w.Object.Spec
	if s.EvictionsPerMinute == nil {
		rate := int32(v1alpha1.DrainRate)
		s.EvictionsPerMinute = &rate
		set("evictionsPerMinute", rate)
	}
	if s.Order == nil {
		s.Order = []v1alpha1.DrainOrder{v1alpha1.OrderPriority, v1alpha1.OrderOwnerSpread}
		set("order", s.Order)
	}
	if s.PodsWithoutController == "" {
		s.PodsWithoutController = v1alpha1.KeepPods
		set("podsWithoutController", s.PodsWithoutController)
	}
	if s.AtEnd == "" {
		s.AtEnd = v1alpha1.EndHold
		set("atEnd", s.AtEnd)
	}
	if s.Deadline != nil && s.Deadline.Action == "" {
		s.Deadline.Action = v1alpha1.DeadlineKeep
		set("deadline/action", s.Deadline.Action)
	}
	return r, nil
}
