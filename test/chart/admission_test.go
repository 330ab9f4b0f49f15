package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedresources"
)

// contract is the table of DESIGN.md for what exists by now: what is sent where,
// for how long, and what happens without an answer.
var contract = map[string]struct {
	resource   string
	versions   []string
	operations []admissionv1.OperationType
	timeout    int32
	conditions []string
}{
	"claims.mutate.dra-steward.io":        {"resourceclaims", v1, writes, 3, []string{"not-being-deleted", "spec-changes-or-finalizer-is-missing"}},
	"templates.mutate.dra-steward.io":     {"resourceclaimtemplates", v1, writes, 3, specChanges},
	"taintrules.mutate.dra-steward.io":    {"devicetaintrules", allVersions, writes, 3, specChanges},
	"slices.mutate.dra-steward.io":        {"resourceslices", v1, writes, 3, []string{"not-being-deleted", "has-something-to-change"}},
	"claims.validate.dra-steward.io":      {"resourceclaims", v1, writes, 3, specChanges},
	"claimstatus.validate.dra-steward.io": {"resourceclaims/status", v1, writes[1:], 2, []string{"allocation-appears", "finalizer-is-missing"}},
	"templates.validate.dra-steward.io":   {"resourceclaimtemplates", v1, writes, 3, specChanges},
	"classes.validate.dra-steward.io":     {"deviceclasses", v1, writes, 3, specChanges[1:]},
	"taintrules.validate.dra-steward.io":  {"devicetaintrules", allVersions, writes, 3, specChanges[1:]},
	"patches.validate.dra-steward.io":     {"resourceslicepatches", ours, writes, 3, specChanges[1:]},
	"drains.mutate.dra-steward.io":        {"devicedrains", ours, writes, 3, specChanges},
	"drains.validate.dra-steward.io":      {"devicedrains devicereactions devicerolls", ours, writes, 3, specChanges},
	"slices.validate.dra-steward.io":      {"resourceslices", v1, writes, 3, []string{"not-being-deleted"}},
	extendedresources.ImplicitWebhook:     {"pods", v1, writes[:1], 2, []string{"asks-for-extended-resources"}},
	policyHook:                            {"configmaps", v1, writes, 10, nil},
	"taintrules.guard.dra-steward.io":     {"devicetaintrules", allVersions, writes, 5, []string{"not-our-controller", "evicts-more"}},
	"drains.guard.dra-steward.io":         {"devicedrains", ours, writes, 5, []string{"not-being-deleted", "not-our-controller", "begins-to-drain"}},
	"reactions.guard.dra-steward.io":      {"devicereactions", ours, writes, 5, []string{"not-being-deleted", "begins-to-act"}},
	"rolls.guard.dra-steward.io":          {"devicerolls", ours, writes, 5, []string{"not-being-deleted", "begins-to-roll"}},
}

// policyHook is the one exception to never looking into our own namespace.
const policyHook = "policies.validate.dra-steward.io"

var (
	v1          = []string{"v1"}
	ours        = []string{"v1alpha1"} // of dra-steward.io
	allVersions = []string{"v1", "v1beta2", "v1alpha3"}
	writes      = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	specChanges = []string{"not-being-deleted", "spec-changes"}
	clusterWide = []string{"resourceslices", "deviceclasses", "devicetaintrules", "resourceslicepatches", "devicedrains", "devicedrains devicereactions devicerolls", "devicereactions", "devicerolls"}
)

func TestContract(t *testing.T) {
	hooks := render(t, with(nil), Options{}).hooks()
	if len(hooks) != len(contract) {
		t.Errorf("%d webhooks, want %d", len(hooks), len(contract))
	}
	for _, h := range hooks {
		want, ok := contract[h.Name]
		if !ok {
			t.Errorf("%s: not in the table", h.Name)
			continue
		}
		rule, group := h.Rules[0], "resource.k8s.io"
		if slices.Equal(want.versions, ours) {
			group = "dra-steward.io"
		}
		resources := strings.Fields(want.resource)
		if h.Name == policyHook || h.Name == extendedresources.ImplicitWebhook {
			group = ""
		}
		if len(h.Rules) != 1 || !slices.Equal(rule.Resources, resources) ||
			!slices.Equal(rule.APIGroups, []string{group}) || !slices.Equal(rule.APIVersions, want.versions) ||
			!slices.Equal(rule.Operations, want.operations) {
			t.Errorf("%s: rules are %v, want %v", h.Name, h.Rules, want)
		}
		policy := admissionv1.Ignore
		if strings.Contains(h.Name, ".guard.") {
			policy = admissionv1.Fail
		}
		if *h.FailurePolicy != policy || *h.TimeoutSeconds != want.timeout {
			t.Errorf("%s: %s, %d s, want %s, %d s", h.Name, *h.FailurePolicy, *h.TimeoutSeconds, policy, want.timeout)
		}
		if got := conditionNames(h); !slices.Equal(got, want.conditions) {
			t.Errorf("%s: matchConditions %v, want %v", h.Name, got, want.conditions)
		}
		if *h.SideEffects != admissionv1.SideEffectClassNone || *h.MatchPolicy != admissionv1.Equivalent ||
			!slices.Equal(h.AdmissionReviewVersions, v1) || (h.ObjectSelector != nil) != (h.Name == policyHook) {
			t.Errorf("%s: sideEffects, matchPolicy, admissionReviewVersions or objectSelector is wrong", h.Name)
		}
		if h.mutates != strings.Contains(h.Name, ".mutate.") || h.mutates != (h.reinvocation != nil && *h.reinvocation == admissionv1.IfNeededReinvocationPolicy) {
			t.Errorf("%s: mutates %v, reinvocationPolicy %v", h.Name, h.mutates, h.reinvocation)
		}
	}
}

func conditionNames(h hook) (names []string) {
	for _, c := range h.MatchConditions {
		names = append(names, c.Name)
	}
	return names
}

// TestScope checks what may never be touched: our own namespace, kube-system, and
// any kind but those of Dynamic Resource Allocation and ours.
func TestScope(t *testing.T) {
	for _, o := range []Options{{}, {Namespace: "kube-system"}, {Namespace: "devices"}} {
		for _, h := range render(t, everything(), o).hooks() {
			resource := h.Rules[0].Resources[0]
			for _, forbidden := range []string{"*", "pods", "nodes", "leases"} {
				if strings.Contains(resource, forbidden) && h.Name != extendedresources.ImplicitWebhook {
					t.Errorf("%s: matches %s", h.Name, resource)
				}
			}
			if slices.Contains(clusterWide, resource) {
				if *h.Rules[0].Scope != admissionv1.ClusterScope || h.NamespaceSelector != nil {
					t.Errorf("%s: %s has no namespace, but scope is %s with selector %v", h.Name, resource, *h.Rules[0].Scope, h.NamespaceSelector)
				}
				continue
			}
			if h.Name == policyHook {
				t.Errorf("%s: is not switched off", h.Name)
			}
			want := slices.Compact([]string{"kube-system", namespaceOf(o), "gpu-operator"})
			e := h.NamespaceSelector.MatchExpressions
			if *h.Rules[0].Scope != admissionv1.NamespacedScope || len(e) != 1 || e[0].Key != "kubernetes.io/metadata.name" ||
				e[0].Operator != "NotIn" || !slices.Equal(e[0].Values, want) {
				t.Errorf("%s: selects namespaces by %v, want NotIn %v", h.Name, e, want)
			}
		}
	}
}

// TestPolicyConfigMaps: only those with our label, in our namespace.
func TestPolicyConfigMaps(t *testing.T) {
	for _, h := range render(t, with(nil), Options{Namespace: "devices"}).hooks() {
		if h.Name != policyHook {
			continue
		}
		if !maps.Equal(h.NamespaceSelector.MatchLabels, map[string]string{"kubernetes.io/metadata.name": "devices"}) ||
			!maps.Equal(h.ObjectSelector.MatchLabels, map[string]string{"dra-steward.io/policy": "true"}) {
			t.Errorf("selects %+v in %+v", h.ObjectSelector, h.NamespaceSelector)
		}
	}
}

func namespaceOf(o Options) string {
	if o.Namespace == "" {
		return "dra-steward"
	}
	return o.Namespace
}

// TestFail turns on the one thing that can refuse writes while we are down, and
// checks how far it reaches.
func TestFail(t *testing.T) {
	for _, h := range render(t, everything(), Options{}).hooks() {
		want := admissionv1.Ignore
		if h.Name == "claims.validate.dra-steward.io" || h.Name == "templates.validate.dra-steward.io" {
			want = admissionv1.Fail
		}
		if *h.FailurePolicy != want {
			t.Errorf("%s: failurePolicy %s, want %s", h.Name, *h.FailurePolicy, want)
		}
	}
}
