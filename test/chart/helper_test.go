package chart

import (
	"flag"
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"

// with returns values with a provided certificate, and more.
func with(more values) values {
	v := values{"certificates": values{"mode": "provided", "existingSecret": "dra-steward-tls", "caBundle": pem}}
	maps.Copy(v, more)
	return v
}

// A release is a rendered chart in Go's types.
type release struct {
	objects        []*unstructured.Unstructured
	deployment     appsv1.Deployment
	service        corev1.Service
	serviceAccount *corev1.ServiceAccount
	namespace      *corev1.Namespace
	config         corev1.ConfigMap
	budget         *policyv1.PodDisruptionBudget
	mutating       admissionv1.MutatingWebhookConfiguration
	validating     admissionv1.ValidatingWebhookConfiguration
	policies       map[string]*admissionv1.ValidatingAdmissionPolicy
	bindings       map[string]*admissionv1.ValidatingAdmissionPolicyBinding
	network        *networkingv1.NetworkPolicy
	people         map[string]*rbacv1.ClusterRole
	clusterRole    *rbacv1.ClusterRole
	binding        *rbacv1.ClusterRoleBinding
	role           *rbacv1.Role
	roleBinding    *rbacv1.RoleBinding
	types          []apiextensionsv1.CustomResourceDefinition
	controller     controller
}

// controller are the objects of the second Deployment.
type controller struct {
	deployment     *appsv1.Deployment
	serviceAccount *corev1.ServiceAccount
	clusterRole    *rbacv1.ClusterRole
	role           *rbacv1.Role
	subjects       []rbacv1.Subject
	budget         *policyv1.PodDisruptionBudget
	network        *networkingv1.NetworkPolicy
}

// take keeps what belongs to the controller, by its label.
func (c *controller) take(object any) bool {
	if o, ok := object.(metav1.Object); !ok || o.GetLabels()["app.kubernetes.io/component"] != "controller" {
		return false
	}
	switch typed := object.(type) {
	case *appsv1.Deployment:
		c.deployment = typed
	case *corev1.ServiceAccount:
		c.serviceAccount = typed
	case *rbacv1.ClusterRole:
		c.clusterRole = typed
	case *rbacv1.Role:
		c.role = typed
	case *policyv1.PodDisruptionBudget:
		c.budget = typed
	case *networkingv1.NetworkPolicy:
		c.network = typed
	case *rbacv1.ClusterRoleBinding:
		c.subjects = append(c.subjects, typed.Subjects...)
	case *rbacv1.RoleBinding:
		c.subjects = append(c.subjects, typed.Subjects...)
	default:
		return false
	}
	return true
}

// render renders the chart and fails on an object with a field that its type lacks.
func render(t *testing.T, v values, o Options) (r release) {
	t.Helper()
	objects, err := Render(v, o)
	if err != nil {
		t.Fatal(err)
	}
	r.objects = objects
	r.people = map[string]*rbacv1.ClusterRole{}
	r.policies = map[string]*admissionv1.ValidatingAdmissionPolicy{}
	r.bindings = map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range objects {
		typed, err := known.New(object.GroupVersionKind())
		if err != nil {
			t.Fatalf("%s: %v", object.GetName(), err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		if r.controller.take(typed) {
			continue
		}
		switch typed := typed.(type) {
		case *appsv1.Deployment:
			r.deployment = *typed
		case *corev1.Service:
			r.service = *typed
		case *corev1.ServiceAccount:
			r.serviceAccount = typed
		case *corev1.Namespace:
			r.namespace = typed
		case *corev1.ConfigMap:
			if typed.Data["config.yaml"] != "" {
				r.config = *typed
			}
		case *policyv1.PodDisruptionBudget:
			r.budget = typed
		case *networkingv1.NetworkPolicy:
			r.network = typed
		case *rbacv1.ClusterRole:
			if typed.Labels["app.kubernetes.io/component"] == "rbac" {
				r.people[typed.Name] = typed
				continue
			}
			r.clusterRole = typed
		case *rbacv1.ClusterRoleBinding:
			r.binding = typed
		case *rbacv1.Role:
			r.role = typed
		case *rbacv1.RoleBinding:
			r.roleBinding = typed
		case *apiextensionsv1.CustomResourceDefinition:
			r.types = append(r.types, *typed)
		case *admissionv1.MutatingWebhookConfiguration:
			r.mutating = *typed
		case *admissionv1.ValidatingWebhookConfiguration:
			r.validating = *typed
		case *admissionv1.ValidatingAdmissionPolicy:
			r.policies[typed.Name] = typed
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			r.bindings[typed.Name] = typed
		default:
			t.Errorf("%s %s: a kind that no test looks at: add it to release in helper_test.go", object.GetKind(), object.GetName())
		}
	}
	return r
}

// A hook is a webhook of either kind, without what only one kind has.
type hook struct {
	admissionv1.ValidatingWebhook
	mutates      bool
	reinvocation *admissionv1.ReinvocationPolicyType
}

func (r release) hooks() (all []hook) {
	for _, w := range r.mutating.Webhooks {
		all = append(all, hook{admissionv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
			MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
			SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
			AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		}, true, w.ReinvocationPolicy})
	}
	for _, w := range r.validating.Webhooks {
		all = append(all, hook{ValidatingWebhook: w})
	}
	return all
}

// validatingHooks returns the validating webhooks among objects of any kind.
func validatingHooks(t *testing.T, objects []*unstructured.Unstructured) (all []hook) {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() != "ValidatingWebhookConfiguration" {
			continue
		}
		var r release
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &r.validating); err != nil {
			t.Fatal(err)
		}
		all = append(all, r.hooks()...)
	}
	return all
}
