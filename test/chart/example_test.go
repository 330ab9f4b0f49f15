package chart_test

import (
	"fmt"

	"github.com/dra-steward/dra-steward/test/chart"
)

// The objects are what helm install would create; a test picks the ones it installs.
func ExampleRender() {
	objects, err := chart.Render(map[string]any{
		"limits": map[string]any{"tolerationsPerRequest": 4},
	}, chart.Options{Namespace: "devices"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, object := range objects {
		fmt.Println(object.GetKind(), object.GetName())
	}
	// Output:
	// ClusterRole dra-steward-oncall
	// ClusterRole dra-steward-view
	// ClusterRole dra-steward
	// ClusterRoleBinding dra-steward
	// ConfigMap dra-steward
	// ClusterRole dra-steward-controller
	// ClusterRoleBinding dra-steward-controller
	// Deployment dra-steward-controller
	// Role dra-steward-controller
	// RoleBinding dra-steward-controller
	// ServiceAccount dra-steward-controller
	// CustomResourceDefinition devicedrains.dra-steward.io
	// CustomResourceDefinition devicereactions.dra-steward.io
	// CustomResourceDefinition devicerolls.dra-steward.io
	// CustomResourceDefinition resourceslicepatches.dra-steward.io
	// Deployment dra-steward
	// MutatingWebhookConfiguration dra-steward
	// PodDisruptionBudget dra-steward
	// Role dra-steward
	// RoleBinding dra-steward
	// Service dra-steward
	// ServiceAccount dra-steward
	// ValidatingAdmissionPolicy dra-steward-proofs
	// ValidatingAdmissionPolicy dra-steward-restarts
	// ValidatingAdmissionPolicy dra-steward-rolls
	// ValidatingAdmissionPolicy dra-steward-statuses
	// ValidatingAdmissionPolicyBinding dra-steward-proofs
	// ValidatingAdmissionPolicyBinding dra-steward-restarts
	// ValidatingAdmissionPolicyBinding dra-steward-rolls
	// ValidatingAdmissionPolicyBinding dra-steward-statuses
	// ValidatingWebhookConfiguration dra-steward
}
