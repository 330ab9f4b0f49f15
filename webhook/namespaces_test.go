package webhook_test

import (
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestNamespaces: the answer to a change of a protected label, and to what is no JSON.
func TestNamespaces(t *testing.T) {
	r, err := review.New(v1alpha1.StewardConfiguration{ProtectedLabels: v1alpha1.ProtectedLabels{Keys: []string{"tier"}, Users: []string{"root"}}})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics, err := webhook.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	h := webhook.Namespaces(webhook.Validating(webhook.Always(r), logr.Discard(), metrics), webhook.Always(r), logr.Discard(), metrics)
	const plain, gold = `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"a","labels":{"tier":"gold"}}}`
	for name, tt := range map[string]struct {
		user, old, new string
		code           int32
	}{
		"refused":    {"jane", plain, gold, http.StatusForbidden},
		"removed":    {"jane", gold, plain, http.StatusForbidden},
		"new":        {"jane", "", gold, http.StatusForbidden},
		"by an user": {"root", plain, gold, http.StatusOK},
		"unchanged":  {"jane", gold, gold, http.StatusOK},
		"no JSON":    {"jane", plain, "{", http.StatusBadRequest},
		"no old":     {"jane", "{", plain, http.StatusBadRequest},
	} {
		operation := admissionv1.Update
		if tt.old == "" {
			operation = admissionv1.Create
		}
		response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Operation: operation, UserInfo: authenticationv1.UserInfo{Username: tt.user},
			Object: runtime.RawExtension{Raw: []byte(tt.new)}, OldObject: runtime.RawExtension{Raw: []byte(tt.old)}}})
		if response.Result.Code != tt.code || response.Allowed != (tt.code == http.StatusOK) {
			t.Errorf("%s: %+v, want %d", name, response.Result, tt.code)
		}
	}
}
