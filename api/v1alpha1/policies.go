package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policies are the settings of the Rego policies. Unknown codes of the library are refused;
// a site's own codes have no effect until a ConfigMap adds the policy.
type Policies struct {
	// Disabled switches all policies off. Rules go on.
	Disabled bool `json:"disabled,omitempty"`
	// Modes replace those that the policies have by themselves, by code.
	Modes map[string]PolicyMode `json:"modes,omitempty"`
	// Parameters replace single parameters of policies, by code.
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	// Namespaces override settings in some namespaces. Where a namespace is in more
	// than one item, later ones win.
	Namespaces []PolicyNamespaces `json:"namespaces,omitempty"`
	// OnError is what happens to a write if a policy in mode deny could not be evaluated,
	// also because it took too long: warn or deny; empty is deny. It never denies a slice,
	// a write of Kubernetes' own components, or an update of an unchanged specification.
	OnError PolicyMode `json:"onError,omitempty"`
	// Limits bound the work that one object can cause. An object that exceeds them is not
	// evaluated, which OnError decides about.
	Limits PolicyLimits `json:"limits,omitzero"`
	// Timeout ends the evaluation for one write. Defaults to 1s; at most 2s, for API
	// servers wait three seconds for an answer.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// PolicyLimits bound what policies evaluate of one claim, template or class.
type PolicyLimits struct {
	// Tolerations is the number of tolerations in all requests and alternatives of an
	// object together; 0 is 512.
	Tolerations int `json:"tolerations,omitempty"`
	// DistinctTolerations is the number of tolerations that differ from each other; 0 is
	// 128.
	DistinctTolerations int `json:"distinctTolerations,omitempty"`
	// Bytes is the size of a specification in its binary form; 0 is 131072.
	Bytes int `json:"bytes,omitempty"`
}

// PolicyNamespaces is what is different in some namespaces.
type PolicyNamespaces struct {
	// Names of the namespaces.
	Names []string `json:"names,omitempty"`
	// NamespaceSelector selects more of them by protected labels.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	Modes      map[string]PolicyMode      `json:"modes,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
}

// PolicyMode is the enforcement of a policy: off, audit, warn or deny.
type PolicyMode string

// UnmarshalJSON reads a mode. A bare off is the boolean false in YAML.
func (m *PolicyMode) UnmarshalJSON(data []byte) error {
	return unmarshalWord(data, (*string)(m))
}
