package chart

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedresources"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
)

var judgingPods = values{"forceDeletion": values{"enabled": true}}

// TestForceDeletionIsOff: no deletion of a pod is sent by default, and with the rule a
// webhook that does not answer stops none.
func TestForceDeletionIsOff(t *testing.T) {
	for _, h := range render(t, with(nil), Options{}).hooks() {
		if strings.HasPrefix(h.Rules[0].Resources[0], "pods") && h.Name != extendedresources.ImplicitWebhook {
			t.Errorf("%s is there by default", h.Name)
		}
	}
	n := 0
	for _, h := range render(t, with(judgingPods), Options{}).hooks() {
		if !strings.HasPrefix(h.Rules[0].Resources[0], "pods") || h.Name == extendedresources.ImplicitWebhook {
			continue
		}
		n++
		if *h.FailurePolicy != admissionv1.Ignore || *h.TimeoutSeconds != 2 {
			t.Errorf("%s: %s after %d s, want Ignore after 2 s", h.Name, *h.FailurePolicy, *h.TimeoutSeconds)
		}
	}
	if n != 2 {
		t.Errorf("%d webhooks for pods, want one for deletions and one for evictions", n)
	}
}

// TestPodConditions: of all deletions of pods only those by force are sent, and of these
// none that passes anyway.
func TestPodConditions(t *testing.T) {
	const held = `{metadata: {name: a}, spec: {nodeName: n1, resourceClaims: [{name: c}]}, status: {phase: Running}}`
	for name, tt := range map[string]struct {
		user  string
		grace *int64
		pod   string
		sent  bool
	}{
		"by force":              {"jane", ptr.To[int64](0), held, true},
		"by another node":       {"system:node:n2", ptr.To[int64](0), held, true},
		"extended resources":    {"jane", ptr.To[int64](0), `{spec: {nodeName: n1}, status: {extendedResourceClaimStatus: {resourceClaimName: c}}}`, true},
		"ordinary":              {"jane", nil, held, false},
		"at once":               {"jane", ptr.To[int64](1), held, false},
		"by its kubelet":        {"system:node:n1", ptr.To[int64](0), held, false},
		"without claims":        {"jane", ptr.To[int64](0), `{spec: {nodeName: n1}, status: {phase: Running}}`, false},
		"on no node":            {"jane", ptr.To[int64](0), `{spec: {resourceClaims: [{name: c}]}, status: {phase: Pending}}`, false},
		"that has ended":        {"jane", ptr.To[int64](0), strings.Replace(held, "Running", "Failed", 1), false},
		"that asks for it":      {"jane", ptr.To[int64](0), strings.Replace(held, "nodeName", "terminationGracePeriodSeconds: 0, nodeName", 1), false},
		"by another controller": {"system:serviceaccount:kube-system:job-controller", ptr.To[int64](0), held, true},
	} {
		if sent := sendsPod(t, "pods.validate.dra-steward.io", tt.user, tt.grace, tt.pod); sent != tt.sent {
			t.Errorf("%s: sent is %v", name, sent)
		}
	}
	const eviction = `{metadata: {name: a}, deleteOptions: {%s}}`
	for options, sent := range map[string]bool{"gracePeriodSeconds: 0": true, "gracePeriodSeconds: 30": false, "dryRun: [All]": false} {
		if got := sendsPod(t, "evictions.validate.dra-steward.io", "jane", nil, strings.Replace(eviction, "%s", options, 1)); got != sent {
			t.Errorf("eviction with %s: sent is %v", options, got)
		}
	}
	if sendsPod(t, "evictions.validate.dra-steward.io", "jane", nil, "metadata: {name: a}") {
		t.Error("an ordinary eviction is sent")
	}
	for _, user := range caller.PodRemovers() {
		if sendsPod(t, "pods.validate.dra-steward.io", user, ptr.To[int64](0), held) {
			t.Errorf("%s is sent, whom the rule exempts", user)
		}
	}
}

// sendsPod evaluates the conditions of a webhook with the API server's own code.
func sendsPod(t *testing.T, name, by string, grace *int64, object string) bool {
	t.Helper()
	return sendsPodWith(t, judgingPods, "default", "a", name, by, grace, object)
}

// sendsPodWith does so with values of the chart, for a pod of a namespace.
func sendsPodWith(t *testing.T, site values, namespace, pod, name, by string, grace *int64, object string) bool {
	t.Helper()
	var h hook
	for _, candidate := range render(t, with(site), Options{}).hooks() {
		if candidate.Name == name {
			h = candidate
		}
	}
	var conditions []cel.ExpressionAccessor
	for _, c := range h.MatchConditions {
		conditions = append(conditions, &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	evaluator := cel.NewConditionCompiler(oldest).CompileCondition(conditions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	strict := admissionv1.Fail
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	versioned := &admission.VersionedAttributes{VersionedKind: gvk}
	resource, subresource, evicts := strings.Cut(h.Rules[0].Resources[0], "/")
	var now, old, options runtime.Object = nil, parse(t, object), &metav1.DeleteOptions{GracePeriodSeconds: grace}
	operation := admission.Delete
	if evicts {
		now, old, options, operation = old, nil, &metav1.CreateOptions{}, admission.Create
		versioned.VersionedObject.Set(now)
	} else {
		versioned.VersionedOldObject.Set(old)
	}
	versioned.Attributes = admission.NewAttributesRecord(now, old, gvk, namespace, pod,
		gvk.GroupVersion().WithResource(resource), subresource, operation, options, false, &user.DefaultInfo{Name: by})
	result := matchconditions.NewMatcher(evaluator, &strict, "webhook", "validating", h.Name).Match(t.Context(), versioned, nil, nil)
	if result.Error != nil {
		t.Errorf("%s: %v", h.Name, result.Error)
	}
	return result.Matches
}
