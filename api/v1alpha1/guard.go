package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AcknowledgementAnnotation is on a DeviceTaintRule or DeviceDrain that may hit more than
// the thresholds of the site: a ceiling such as "pods<=120,namespaces<=4".
const AcknowledgementAnnotation = "dra-steward.io/acknowledged-impact"

// Guard is what stands before writes of DeviceTaintRules and DeviceDrains that evict many
// pods at once. It is no part of the policies' kill switch.
type Guard struct {
	// Mode is deny, warn or off; empty is what the mode of the configuration says: deny,
	// but in the modes warn and observe.
	Mode PolicyMode `json:"mode,omitempty"`
	// OnError is the answer to a write whose impact cannot be counted or checked: deny
	// or warn; empty is deny.
	OnError PolicyMode `json:"onError,omitempty"`
	// Thresholds are what passes without an acknowledgement.
	Thresholds GuardThresholds `json:"thresholds,omitempty"`
	// Window is how long an eviction counts against the thresholds together with those that
	// begin after it. Absent is 10m; at most 1h; 0s counts each object by itself.
	Window *metav1.Duration `json:"window,omitempty"`
}

// GuardThresholds are how much one object may hit without an acknowledgement. Absent are
// 20 pods, 5 namespaces and 25 percent.
type GuardThresholds struct {
	Pods       *int `json:"pods,omitempty"`
	Namespaces *int `json:"namespaces,omitempty"`
	// Stranded are pods that do not land again. Absent sets no limit; the webhook computes it
	// with --guard-foresight only.
	Stranded *int `json:"stranded,omitempty"`
	// Percent is the share of the devices of the drivers that are hit, 0 to 100.
	Percent *int `json:"percent,omitempty"`
}
