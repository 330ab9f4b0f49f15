package certificate

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRestoredWhileRotating: a Secret that a backup tool has created in the middle of a rotation belongs to that tool, too.
func TestRestoredWhileRotating(t *testing.T) {
	state := State{}.Prepare(pair(t, host)).Promote().Prepare(pair(t, host))
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "dra-steward", UID: "u", ResourceVersion: "1"},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "claims", ClientConfig: admissionv1.WebhookClientConfig{CABundle: state.Bundle()}}}}
	client := fake.NewClientset(configuration)
	secrets := client.CoreV1().Secrets("ns")
	stored, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tls"}, Type: corev1.SecretTypeOpaque, Data: state.Data()},
		metav1.CreateOptions{FieldManager: "velero-server"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{Client: client, Namespace: "ns", Secret: "tls", Configurations: "dra-steward", Settings: settings, Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	version := 1
	show := func() { // the API server changes the version only if something changes
		now, err := secrets.Get(t.Context(), "tls", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(now.Data, stored.Data, slices.Equal) {
			version++
		}
		now = now.DeepCopy()
		now.ResourceVersion, stored = strconv.Itoa(version), now
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), now, "ns"); err != nil {
			t.Fatal(err)
		}
		_ = r.secrets.GetStore().Add(now)
		c, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "dra-steward", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_ = r.validating.GetStore().Add(c)
	}
	start := time.Now()
	for at := time.Duration(0); at < 65*24*time.Hour; at += time.Hour {
		show()
		if _, err := r.reconcile(t.Context(), start.Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	show()
	if got := Parse(stored.Data); got.Serving.Expires().Before(start.Add(100 * 24 * time.Hour)) {
		t.Errorf("after 65 days, the certificate still expires at %s (%s after the start)", got.Serving.Expires(), got.Serving.Expires().Sub(start))
	}
}
