package v1alpha1

// DrainSettings are those of the DeviceDrains that DeviceReactions and DeviceRolls create. The fields
// are those of a DeviceDrain.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || !has(self.deadline.time)",message="the deadline must have after: a time is that of one drain"
type DrainSettings struct {
	// WithPartitions drains the devices, too, that consume counters of the same counter sets.
	// +optional
	WithPartitions bool `json:"withPartitions,omitempty"`
	// Via is how pods are asked to leave.
	// +optional
	Via DrainVia `json:"via,omitempty"`
	// EvictionsPerMinute bounds the rate of evictions. Absent is 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6000
	EvictionsPerMinute *int32 `json:"evictionsPerMinute,omitempty"`
	// MaxPerNamespace bounds how many pods of one namespace are on their way out at a time.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNamespace *int32 `json:"maxPerNamespace,omitempty"`
	// Order is the eviction order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Order []DrainOrder `json:"order,omitempty"`
	// PodsWithoutController is the treatment of pods that no controller replaces.
	// +optional
	PodsWithoutController PodsWithoutController `json:"podsWithoutController,omitempty"`
	// Windows are the times in which pods are evicted. Absent is at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`
	// Deadline is the maximum duration of the drain, and what happens at its end.
	// +optional
	Deadline *DrainDeadline `json:"deadline,omitempty"`
}

// Of returns the spec of a drain of devices, which keeps the cordon until it is deleted.
func (s DrainSettings) Of(devices ...DeviceName) DeviceDrainSpec {
	return DeviceDrainSpec{
		Devices: devices, WithPartitions: s.WithPartitions, Via: s.Via, EvictionsPerMinute: s.EvictionsPerMinute,
		MaxPerNamespace: s.MaxPerNamespace, Order: s.Order, PodsWithoutController: s.PodsWithoutController,
		Windows: s.Windows, Deadline: s.Deadline, AtEnd: EndHold,
	}
}
