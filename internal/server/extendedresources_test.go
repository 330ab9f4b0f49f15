package server

import (
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestExtendedResourcesOff: switched off, a webhook that is configured still admits all pods.
func TestExtendedResourcesOff(t *testing.T) {
	site := &reloader{minor: func() int { return 37 }}
	reviewer, err := review.New(v1alpha1.StewardConfiguration{Limits: v1alpha1.Limits{DevicesPerClaim: 1}})
	if err != nil {
		t.Fatal(err)
	}
	reviewer.InCluster = true
	site.inForce.Store(&reviewer)
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ml", Object: runtime.RawExtension{Raw: []byte(`{
		"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ml"},
		"spec": {"containers": [{"name": "a", "resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "2"}}}]}}`)}}}
	request.Kind.Version, request.Kind.Kind = "v1", "Pod"
	for _, on := range []bool{true, false} {
		response := serveOptions{extendedResources: on}.pods(site, webhook.Options{Log: logr.Discard()}).Handle(t.Context(), request)
		if response.Allowed == on {
			t.Errorf("--extended-resources=%t: allowed %t, %v", on, response.Allowed, response.Result)
		}
	}
}
