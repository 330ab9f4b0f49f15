package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ProofTemplate decodes the template of a proof, with an error for a field that Kubernetes does not
// know.
func ProofTemplate(p *ReactionProve) (*corev1.PodTemplateSpec, error) {
	if n := len(p.Template.Raw); n > ReactionTemplateMax {
		return nil, fmt.Errorf("has %d bytes: must have at most %d", n, ReactionTemplateMax)
	}
	decoder := json.NewDecoder(bytes.NewReader(p.Template.Raw))
	decoder.DisallowUnknownFields()
	template := &corev1.PodTemplateSpec{}
	if err := decoder.Decode(template); err != nil {
		return nil, fmt.Errorf("must be a v1 PodTemplateSpec: %w", err)
	}
	return template, nil
}
