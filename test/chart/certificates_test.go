package chart

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCaBundleIsNotOurs: where another user keeps it, no template says anything about
// caBundle, so that neither helm nor a GitOps tool resets it.
func TestCaBundleIsNotOurs(t *testing.T) {
	for mode, want := range map[string]bool{"selfManaged": false, "certManager": false, "provided": true} {
		v := values{"certificates": values{"mode": mode}}
		if mode == "provided" {
			v = with(nil)
		}
		objects, err := Render(v, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), `"caBundle"`); got != want {
			t.Errorf("mode %s: caBundle is rendered: %t, want %t", mode, got, want)
		}
		for _, object := range objects {
			from := object.GetAnnotations()["cert-manager.io/inject-ca-from"]
			if isHook := strings.HasSuffix(object.GetKind(), "WebhookConfiguration"); (from != "") != (isHook && mode == "certManager") {
				t.Errorf("mode %s: %s has the annotation %q", mode, object.GetKind(), from)
			}
		}
	}
}

// TestSelfManaged: the controller writes what the webhook reads, each with rights to that
// one Secret and the configurations of that name, and to no other.
func TestSelfManaged(t *testing.T) {
	r := render(t, nil, Options{ReleaseName: "blue", Namespace: "devices"})
	webhook, controller := r.deployment.Spec.Template.Spec, r.controller.deployment.Spec.Template.Spec
	secret := argument(t, controller.Containers[0], "--certificate-secret")
	if got := argument(t, webhook.Containers[0], "--certificate-secret"); got != "devices/"+secret {
		t.Errorf("the webhook reads %s, the controller writes %s", got, secret)
	}
	if got := argument(t, controller.Containers[0], "--webhook-configurations"); got != r.mutating.Name || got != r.validating.Name {
		t.Errorf("the controller keeps the configurations %s, they are %s and %s", got, r.mutating.Name, r.validating.Name)
	}
	if got, want := argument(t, controller.Containers[0], "--certificate-hosts"), r.service.Name+".devices.svc"; got != want {
		t.Errorf("the certificate is for %s, API servers ask for %s", got, want)
	}
	if !*webhook.AutomountServiceAccountToken || len(webhook.Volumes) != 1 {
		t.Errorf("no token, or a volume beside the configuration: %v", webhook.Volumes)
	}
	var rights []string
	for _, rule := range slices.Concat(r.role.Rules, r.controller.role.Rules, r.controller.clusterRole.Rules) {
		if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "validatingwebhookconfigurations") {
			rights = append(rights, fmt.Sprint(rule.Resources, rule.ResourceNames, rule.Verbs))
		}
	}
	if want := []string{
		"[secrets] [" + secret + "] [list watch]",
		"[secrets] [" + secret + "] [list watch create patch]",
		"[mutatingwebhookconfigurations validatingwebhookconfigurations] [" + r.mutating.Name + "] [list watch patch]",
	}; !slices.Equal(rights, want) {
		t.Errorf("rights\n%s, want\n%s", strings.Join(rights, "\n"), strings.Join(want, "\n"))
	}
	without, err := Render(values{"liveData": values{"enabled": false}, "policies": values{"configMaps": false}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(without, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Role" && o.GetLabels()["app.kubernetes.io/component"] == "webhook"
	}) {
		t.Error("without live data and policies the right to the Secret is missing")
	}
}

// TestClientCA: the authority of API servers' client certificates reaches the webhook.
func TestClientCA(t *testing.T) {
	v := func(ca string) values {
		return values{"certificates": values{"mode": "provided", "existingSecret": "dra-steward-tls", "caBundle": pem, "clientCA": ca}}
	}
	r := render(t, v(pem), Options{})
	file := argument(t, r.deployment.Spec.Template.Spec.Containers[0], "--client-ca")
	if r.config.Data[path.Base(file)] != pem || path.Dir(file) != "/etc/dra-steward/config" {
		t.Errorf("--client-ca=%s, and the ConfigMap has %q", file, r.config.Data[path.Base(file)])
	}
	if _, err := Render(v("a file"), Options{}); err == nil || !strings.Contains(err.Error(), "certificates.clientCA: must be") {
		t.Errorf("no PEM: got %v", err)
	}
}
