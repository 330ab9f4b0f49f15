package webhook

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// storing is the request that stores a ConfigMap with files of a text.
func storing(t *testing.T, text string, files ...string) admission.Request {
	t.Helper()
	configMap := corev1.ConfigMap{Data: map[string]string{}}
	for _, name := range files {
		configMap.Data[name] = text
	}
	raw, err := json.Marshal(configMap)
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw}}}
}

// TestPoliciesOfStrangers: any pod that reaches the webhook can send a ConfigMap. Tests run only for a caller with a client
// certificate; for others, policies of a limited size are compiled, one ConfigMap at a time.
func TestPoliciesOfStrangers(t *testing.T) {
	stranger := context.WithValue(t.Context(), admittedKey{}, admitted{held: &resources{}})
	server := context.WithValue(t.Context(), admittedKey{}, admitted{held: &resources{}, authenticated: true})
	long, deep := strings.Repeat("#", maxCompiled), strings.Repeat("[", maxBrackets+1)+strings.Repeat("]", maxBrackets+1)
	const later, tests = "checks these policies when it loads them", "runs the tests of these policies when it loads them"
	for name, tt := range map[string]struct {
		ctx            context.Context
		req            admission.Request
		checked, tests bool
		warning        string
	}{
		"an API server":              {server, storing(t, long+deep, "a.rego", "a_test.rego"), true, true, ""},
		"a stranger":                 {stranger, storing(t, "#", "a.rego"), true, false, ""},
		"a stranger, with tests":     {stranger, storing(t, "#", "a.rego", "a_test.rego"), true, false, tests},
		"a stranger, with much text": {stranger, storing(t, long, "a.rego"), false, false, later},
		"a stranger, a deep schema":  {stranger, storing(t, deep, "a.schema.json"), true, false, ""},
		"a stranger, deeply nested":  {stranger, storing(t, deep, "a.rego"), false, false, later},
		"a stranger, hidden nesting": {stranger, storing(t, strings.ReplaceAll(deep+"[]", "[", "[ # ]\n"), "a.rego"), false, false, later},
	} {
		checked := false
		response := PolicyConfigMaps(nil, func(_ context.Context, _ *corev1.ConfigMap, runTests bool) error {
			if checked = true; runTests != tt.tests {
				t.Errorf("%s: whether the tests run: %t", name, runTests)
			}
			return nil
		}, Options{}).Handle(tt.ctx, tt.req)
		if warned := strings.Join(response.Warnings, "\n"); checked != tt.checked || !response.Allowed || !strings.Contains(warned, tt.warning) || (warned == "") != (tt.warning == "") {
			t.Errorf("%s: checked: %t, allowed: %t, warnings: %q", name, checked, response.Allowed, warned)
		}
	}
}

// TestOneStrangerAtATime: while the policies of one caller are compiled, those of another are not, and an API server with a
// certificate waits for neither.
func TestOneStrangerAtATime(t *testing.T) {
	stranger := context.WithValue(t.Context(), admittedKey{}, admitted{held: &resources{}})
	checks := 0
	var handler admission.Handler
	handler = PolicyConfigMaps(nil, func(context.Context, *corev1.ConfigMap, bool) error {
		if checks++; checks > 2 {
			t.Fatal("the policies of two strangers are compiled at the same time")
		}
		if checks == 1 {
			if second := handler.Handle(stranger, storing(t, "#", "a.rego")); !second.Allowed || len(second.Warnings) != 1 {
				t.Errorf("the second one: %+v", second)
			}
			handler.Handle(t.Context(), storing(t, "#", "a.rego"))
		}
		return nil
	}, Options{})
	handler.Handle(stranger, storing(t, "#", "a.rego"))
	if checks != 2 {
		t.Errorf("%d checks", checks)
	}
}

// TestBrackets: brackets in strings and comments count for nothing, so that they hide none.
func TestBrackets(t *testing.T) {
	for text, want := range map[string]int{
		"":                            0,
		"f([{1}])":                    3,
		"[] [] [[]]":                  2,
		"[ # ]\n[ # ]\n[":             3,
		"[\"]\"[\"\\\"]]]\"[":         3,
		"[\"]]\n[[":                   3,
		"[`]\n\"]`[":                  2,
		"[`]":                         1,
		"]]] [":                       1,
		`x := $"{f([1])}"`:            math.MaxInt,
		`msg := "costs 5 $ (a lot)"`:  0,
		"# package dra.custom.a [[[[": 0,
	} {
		if got := brackets(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
