package certmanager

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/chart"
)

type values = map[string]any

// rendered returns the chart's objects by kind and name, in cert-manager's and
// Kubernetes's own types, decoded strictly.
func rendered(t *testing.T, certManager values) (typed map[string]client.Object, objects []*unstructured.Unstructured) {
	t.Helper()
	certificates := values{"mode": "certManager"}
	if certManager != nil {
		certificates["certManager"] = certManager
	}
	v := values{"certificates": certificates}
	objects, err := chart.Render(v, chart.Options{KubeVersion: cluster.Version()})
	must(t, err)
	typed = map[string]client.Object{}
	for _, object := range objects {
		if !scheme.Scheme.Recognizes(object.GroupVersionKind()) {
			continue
		}
		into, err := scheme.Scheme.New(object.GroupVersionKind())
		must(t, err)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		known, ok := into.(client.Object)
		if !ok {
			t.Fatalf("%T", into)
		}
		typed[object.GetKind()+" "+object.GetName()] = known
	}
	return typed, objects
}

func get[T client.Object](t *testing.T, objects map[string]client.Object, name string) T {
	t.Helper()
	object, ok := objects[name].(T)
	if !ok {
		t.Fatalf("%s is %T", name, objects[name])
	}
	return object
}

// TestAgreement: what API servers call, what the certificate is for, where it is kept and
// what the pods mount are the same.
func TestAgreement(t *testing.T) {
	objects, _ := rendered(t, nil)
	certificate := get[*certmanagerv1.Certificate](t, objects, "Certificate dra-steward")
	service := get[*corev1.Service](t, objects, "Service dra-steward")
	if want := service.Name + "." + service.Namespace + ".svc"; len(certificate.Spec.DNSNames) != 1 || certificate.Spec.DNSNames[0] != want {
		t.Errorf("for %v, API servers ask for %s", certificate.Spec.DNSNames, want)
	}
	for _, volume := range get[*appsv1.Deployment](t, objects, "Deployment dra-steward").Spec.Template.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName != certificate.Spec.SecretName {
			t.Errorf("the pods mount %s, the certificate is in %s", volume.Secret.SecretName, certificate.Spec.SecretName)
		}
	}
	want := certificate.Namespace + "/" + certificate.Name
	for _, name := range []string{"MutatingWebhookConfiguration dra-steward", "ValidatingWebhookConfiguration dra-steward"} {
		if got := objects[name].GetAnnotations()[certmanagerv1.WantInjectAnnotation]; got != want {
			t.Errorf("%s: injected from %q, want %s", name, got, want)
		}
	}
	issuer := get[*certmanagerv1.Issuer](t, objects, "Issuer "+certificate.Spec.IssuerRef.Name)
	authority := get[*certmanagerv1.Certificate](t, objects, "Certificate "+issuer.Name)
	if !authority.Spec.IsCA || issuer.Spec.CA == nil || issuer.Spec.CA.SecretName != authority.Spec.SecretName || authority.Spec.PrivateKey.RotationPolicy != certmanagerv1.RotationPolicyNever {
		t.Errorf("the issuer is %+v, its authority %+v", issuer.Spec, authority.Spec)
	}
	if self := get[*certmanagerv1.Issuer](t, objects, "Issuer "+authority.Spec.IssuerRef.Name); self.Spec.SelfSigned == nil {
		t.Errorf("the authority is signed by %+v", self.Spec)
	}
	if certificate.Spec.Duration.Duration <= certificate.Spec.RenewBefore.Duration {
		t.Errorf("valid for %v, renewed %v before", certificate.Spec.Duration, certificate.Spec.RenewBefore)
	}
}

// TestIssuerOfTheSite: with an issuerRef nothing but the one Certificate is rendered.
func TestIssuerOfTheSite(t *testing.T) {
	objects, _ := rendered(t, values{"issuerRef": values{"name": "site", "kind": "ClusterIssuer", "group": "cert-manager.io"}, "duration": "24h", "renewBefore": "8h"})
	for name := range objects {
		if strings.HasPrefix(name, "Issuer ") || strings.HasPrefix(name, "Certificate ") && name != "Certificate dra-steward" {
			t.Errorf("%s must not be there", name)
		}
	}
	if got := get[*certmanagerv1.Certificate](t, objects, "Certificate dra-steward").Spec.IssuerRef; got != (cmmeta.IssuerReference{Name: "site", Kind: "ClusterIssuer", Group: "cert-manager.io"}) {
		t.Errorf("issuer %+v", got)
	}
}

// TestIssued lets cert-manager's own controllers issue and inject, renew the certificate
// and its authority, and applies the chart once more: whatever is served is trusted at
// every step.
func TestIssued(t *testing.T) {
	c := certManager(t)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	_, objects := rendered(t, nil)
	apply(t, c, objects)
	var first, second, third keyPair
	eventually(t, "issued and injected", func(ctx context.Context) (err error) { first, err = served(ctx, c, "dra-steward"); return err })
	apply(t, c, objects)
	if _, err := served(t.Context(), c, "dra-steward"); err != nil {
		t.Errorf("after the chart was applied again: %v", err)
	}
	renew(t, c, "dra-steward")
	eventually(t, "renewed with a new key", func(ctx context.Context) (err error) {
		if second, err = served(ctx, c, "dra-steward"); err == nil && bytes.Equal(first.key, second.key) {
			return errors.New("the key is the previous one")
		}
		return err
	})
	renew(t, c, "dra-steward-authority")
	eventually(t, "another authority", func(ctx context.Context) error {
		secret := &corev1.Secret{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "dra-steward-authority"}, secret)
		if err == nil && bytes.Equal(secret.Data["tls.crt"], second.authority) {
			return errors.New("the authority is the previous one")
		}
		return err
	})
	renew(t, c, "dra-steward")
	eventually(t, "signed by it", func(ctx context.Context) (err error) {
		if third, err = served(ctx, c, "dra-steward"); err == nil && bytes.Equal(second.authority, third.authority) {
			renew(t, c, "dra-steward") // the issuer may have had the previous one in its cache
			return errors.New("the authority is the previous one")
		}
		return err
	})
	if err := second.verify(third.authority); err != nil {
		t.Errorf("a webhook that still serves the previous certificate is not trusted: %v", err)
	}
	if err := third.verify(second.authority); err != nil {
		t.Errorf("an API server that still has the previous authority does not trust the new certificate: %v", err)
	}
}

func apply(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		must(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("gitops"), client.ForceOwnership))
	}
}

// A keyPair is what a Secret of cert-manager has, and what all webhooks trust.
type keyPair struct{ certificate, key, authority []byte }

func (p keyPair) verify(authority []byte) error {
	pair, err := tls.X509KeyPair(p.certificate, p.key)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "dra-steward.dra-steward.svc"})
	return err
}

// served is the certificate of the mounted Secret, once API servers trust it.
func served(ctx context.Context, c client.Client, name string) (keyPair, error) {
	certificate := &certmanagerv1.Certificate{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, certificate); err != nil {
		return keyPair{}, err
	}
	if !apiutil.CertificateHasCondition(certificate, certmanagerv1.CertificateCondition{Type: certmanagerv1.CertificateConditionReady, Status: cmmeta.ConditionTrue}) ||
		apiutil.CertificateHasCondition(certificate, certmanagerv1.CertificateCondition{Type: certmanagerv1.CertificateConditionIssuing, Status: cmmeta.ConditionTrue}) {
		return keyPair{}, fmt.Errorf("conditions %v", certificate.Status.Conditions)
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: certificate.Spec.SecretName}, secret); err != nil {
		return keyPair{}, err
	}
	pair := keyPair{secret.Data["tls.crt"], secret.Data["tls.key"], secret.Data["ca.crt"]}
	var validating admissionv1.ValidatingWebhookConfiguration
	var mutating admissionv1.MutatingWebhookConfiguration
	key := client.ObjectKey{Name: "dra-steward"}
	if err := errors.Join(c.Get(ctx, key, &validating), c.Get(ctx, key, &mutating)); err != nil {
		return keyPair{}, err
	}
	for _, hook := range validating.Webhooks {
		if err := trusts(hook.ClientConfig.CABundle, pair.authority); err != nil {
			return keyPair{}, fmt.Errorf("%s: %w", hook.Name, err)
		}
	}
	for _, hook := range mutating.Webhooks {
		if err := trusts(hook.ClientConfig.CABundle, pair.authority); err != nil {
			return keyPair{}, fmt.Errorf("%s: %w", hook.Name, err)
		}
	}
	return pair, pair.verify(pair.authority)
}

// trusts says whether a bundle has an authority; the injector keeps the previous ones beside
// it.
func trusts(bundle, authority []byte) error {
	trusted, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return err
	}
	wanted, err := cert.ParseCertsPEM(authority)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(trusted, wanted[0].Equal) {
		return fmt.Errorf("trusts %d other authorities", len(trusted))
	}
	return nil
}

// renew is cmctl renew.
func renew(t *testing.T, c client.Client, name string) {
	t.Helper()
	eventually(t, "renewal of "+name, func(ctx context.Context) error {
		certificate := &certmanagerv1.Certificate{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, certificate); err != nil {
			return err
		}
		apiutil.SetCertificateCondition(certificate, certificate.Generation, certmanagerv1.CertificateConditionIssuing, cmmeta.ConditionTrue, "ManuallyTriggered", "asked for by a test")
		return c.Status().Update(ctx, certificate)
	})
}
