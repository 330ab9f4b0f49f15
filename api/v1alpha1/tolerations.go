package v1alpha1

import resourceapi "k8s.io/api/resource/v1"

// TolerationsAnnotation records, on a claim or template whose tolerations were changed
// when it was created, what they were: a JSON object with the lists by the name of
// their request ("gpu", "gpu/small" for an alternative) and the hash of the lists.
const TolerationsAnnotation = "dra-steward.io/original-tolerations"

// Tolerations change the tolerations of new claims and templates.
type Tolerations struct {
	// ExpandEmptyEffect replaces a toleration without an effect, which stands for all
	// effects, by one for NoSchedule and one for NoExecute, both without seconds. The
	// API server's own evictor (1.37) passes over tolerations without an effect.
	ExpandEmptyEffect bool `json:"expandEmptyEffect,omitempty"`
	// Rules apply in their order: all of them add, then all of them set seconds.
	Rules []TolerationRule `json:"rules,omitempty"`
}

// TolerationRule changes the tolerations of the requests that it selects. A criterion
// that is left out holds for all.
type TolerationRule struct {
	// Namespaces are the names of namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// Users and Groups are those of the author; one of either is enough.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// DeviceClasses are the names of the classes that a request asks for.
	DeviceClasses []string `json:"deviceClasses,omitempty"`
	// Add are tolerations for every request that has none with the same key, operator,
	// value and effect.
	Add []resourceapi.DeviceToleration `json:"add,omitempty"`
	// DefaultSeconds is set in a toleration for NoExecute that has no
	// tolerationSeconds and so has no end.
	DefaultSeconds *int64 `json:"defaultSeconds,omitempty"`
	// MaxSeconds caps the tolerationSeconds of tolerations for NoExecute. One without
	// gets DefaultSeconds, or this if there are none.
	MaxSeconds *int64 `json:"maxSeconds,omitempty"`
}
