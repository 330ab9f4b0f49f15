package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policies say what the Rego policies do. Codes that no policy has are passed over.
type Policies struct {
	// Disabled switches all policies off. Rules go on.
	Disabled bool `json:"disabled,omitempty"`
	// Modes replace those that the policies have by themselves, by code.
	Modes map[string]PolicyMode `json:"modes,omitempty"`
	// Parameters replace single parameters of policies, by code.
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	// Namespaces say what is different in some namespaces. Where a namespace stands in
	// more than one item, later ones count more.
	Namespaces []PolicyNamespaces `json:"namespaces,omitempty"`
	// OnError is what becomes of a write that a policy could not judge: warn or deny;
	// empty is warn.
	OnError PolicyMode `json:"onError,omitempty"`
	// Timeout ends the evaluation for one write. Absent is 1s; at most 2s, for API
	// servers wait three seconds for an answer.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
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

// PolicyMode is what becomes of what a policy objects to: off, audit, warn or deny.
type PolicyMode string

// UnmarshalJSON reads a mode. A bare off is the boolean false in YAML.
func (m *PolicyMode) UnmarshalJSON(data []byte) error {
	return unmarshalWord(data, (*string)(m))
}
