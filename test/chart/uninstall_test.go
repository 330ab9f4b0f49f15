package chart

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestUninstallHook: everything that the hook makes goes again, it runs before anything is
// deleted, and may do what it does and no more.
func TestUninstallHook(t *testing.T) {
	for choice, want := range map[string]string{
		"keep": "delete configmaps, delete devicetaintrules, delete leases, get deployments, get leases, list devicetaintrules, list nodes, list resourceclaims, list resourceclaimtemplates, list resourceslices, patch deployments/scale, patch devicetaintrules",
		"lift": "delete configmaps, delete devicetaintrules, delete leases, get deployments, get leases, list devicetaintrules, list nodes, list resourceclaims, list resourceclaimtemplates, list resourceslices, patch deployments/scale",
	} {
		objects, err := Hooks(with(values{"uninstall": values{"taintRules": choice}}), Options{Namespace: "devices"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, object := range objects {
			a := object.GetAnnotations()
			if a["helm.sh/hook"] != "pre-delete" || a["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
				t.Errorf("%s: annotations are %v", object.GetKind(), a)
			}
			typed, err := scheme.Scheme.New(object.GroupVersionKind())
			if err == nil {
				err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true)
			}
			if err != nil {
				t.Fatal(err)
			}
			switch typed := typed.(type) {
			case *rbacv1.ClusterRole:
				got = append(got, rightsOf(typed.Rules, nil)...)
				for _, rule := range typed.Rules {
					if choice == "keep" && slices.Contains(rule.Verbs, "delete") && !slices.Equal(rule.ResourceNames, []string{"dra-steward-probe"}) {
						t.Errorf("keep: may delete rules: %+v", rule)
					}
				}
			case *rbacv1.Role:
				got = append(got, rightsOf(typed.Rules, func(rule rbacv1.PolicyRule) {
					if len(rule.ResourceNames) == 0 {
						t.Errorf("%+v: is not restricted to names", rule)
					}
				})...)
			case *batchv1.Job:
				if args := typed.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--taint-rules="+choice) || !slices.Contains(args, "--namespace=devices") || !slices.Contains(args, "--hook") {
					t.Errorf("arguments are %q", args)
				}
				if a["helm.sh/hook-output-log-policy"] == "" || a["helm.sh/hook-weight"] != "0" {
					t.Errorf("its output is lost, or it runs before it may: %v", a)
				}
			}
		}
		slices.Sort(got)
		if got := strings.Join(slices.Compact(got), ", "); got != want {
			t.Errorf("%s:\ngot:  %s\nwant: %s", choice, got, want)
		}
		if len(objects) != 6 {
			t.Errorf("%d objects, want 6", len(objects))
		}
	}
	if objects, err := Hooks(with(values{"uninstall": values{"enabled": false}}), Options{}); err != nil || len(objects) != 0 {
		t.Errorf("switched off: %v, %v", objects, err)
	}
}

// TestNamespacesStay: helm deletes no namespace that the chart has created, neither when createNamespace is false again nor with
// the release.
func TestNamespacesStay(t *testing.T) {
	objects, err := Render(with(values{"node": values{"enabled": true, "namespace": "agents", "createNamespace": true},
		"controller": values{"reactions": values{"enabled": true, "proofs": values{"enabled": true}}}}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, object := range objects {
		if object.GetKind() == "Namespace" && object.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			kept = append(kept, object.GetName())
		}
	}
	slices.Sort(kept)
	if !slices.Equal(kept, []string{"agents", "dra-steward-proofs"}) {
		t.Errorf("kept are %v", kept)
	}
}

// rightsOf lists what rules allow, "verb resource", and shows each of them to look.
func rightsOf(rules []rbacv1.PolicyRule, visit func(rbacv1.PolicyRule)) (rights []string) {
	for _, rule := range rules {
		if visit != nil {
			visit(rule)
		}
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				rights = append(rights, verb+" "+resource)
			}
		}
	}
	return rights
}
