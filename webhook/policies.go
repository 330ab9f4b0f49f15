package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
)

// policyConfigMaps checks ConfigMaps with policies and passes all other requests on.
type policyConfigMaps struct {
	Options
	next  admission.Handler
	check func(ctx context.Context, stored *corev1.ConfigMap, runTests bool) error
	// checking is held while the policies of a caller that may be anyone are compiled.
	checking sync.Mutex
}

// PolicyConfigMaps returns a handler for ConfigMaps with policies before another one for the
// rest. check returns the problem that the policies have once a ConfigMap is stored, and runs their tests only if
// runTests is true.
//
// A caller without a client certificate can be any pod. Its policies are compiled up to 32 KiB and 12 levels of brackets,
// one ConfigMap at a time: a compiler may need seconds for that, and minutes for more. Others are admitted. Their
// tests do not run: what a test costs in memory has no bound. Whatever is admitted is checked again, with its
// tests, before it comes into force.
func PolicyConfigMaps(next admission.Handler, check func(ctx context.Context, stored *corev1.ConfigMap, runTests bool) error, o Options) admission.Handler {
	return &policyConfigMaps{Options: o, next: next, check: check}
}

// What a ConfigMap has at most, in bytes and in levels of brackets, whose policies are compiled for any caller.
const (
	maxCompiled = 32 << 10
	maxBrackets = 12
)

// laterChecks is the warning to a caller whose policies are not compiled.
const laterChecks = "dra-steward checks these policies when it loads them: run dra-steward policy test first"

// laterTests is the warning to a caller whose tests do not run.
const laterTests = "dra-steward runs the tests of these policies when it loads them, and does not load policies that fail: run dra-steward policy test first"

// Handle refuses a ConfigMap whose policies are not valid.
func (p *policyConfigMaps) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Kind.Kind != "ConfigMap" || req.Kind.Group != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return p.next.Handle(ctx, req)
	}
	if cheap(ctx) {
		return admission.Allowed("") // it is checked again before it is loaded
	}
	known, later := authenticated(ctx), admission.Allowed("").WithWarnings(named(laterChecks, ruleid.PolicyConfigMap))
	if !known && len(req.Object.Raw) > maxCompiled {
		return later
	}
	var configMap corev1.ConfigMap
	if err := json.Unmarshal(req.Object.Raw, &configMap); err != nil {
		return errored(p.redactError(ctx, err))
	}
	if !known {
		if deep(configMap) || !p.checking.TryLock() {
			return later
		}
		defer p.checking.Unlock()
	}
	configMap.Namespace, configMap.Name = req.Namespace, req.Name
	err := p.check(ctx, &configMap, known)
	if err == nil {
		response := admission.Allowed("")
		if !known && hasTests(configMap) {
			response = response.WithWarnings(named(laterTests, ruleid.PolicyConfigMap))
		}
		return response
	}
	if !p.verbose(ctx) {
		p.Log.Info("refused a ConfigMap whose policies are not valid", "name", req.Name, "user", req.UserInfo.Username, "error", err.Error())
		err = errors.New("details are not shown")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: named("the policies are not valid; the current ones stay in force: "+err.Error(), ruleid.PolicyConfigMap),
	}}}
}

// hasTests reports whether a ConfigMap has tests of policies.
func hasTests(c corev1.ConfigMap) bool {
	for name := range c.Data {
		if strings.HasSuffix(name, "_test.rego") {
			return true
		}
	}
	return false
}

// deep reports whether a policy of a ConfigMap may keep a compiler busy: its time doubles with each level of brackets.
func deep(c corev1.ConfigMap) bool {
	for name, text := range c.Data {
		if strings.HasSuffix(name, ".rego") && brackets(text) > maxBrackets {
			return true
		}
	}
	return false
}

// brackets returns how deep the brackets of a policy are nested, without those in strings and comments. In a template string
// there can be any.
func brackets(text string) (deepest int) {
	for depth := 0; text != ""; {
		c := text[0]
		text = text[1:]
		switch c {
		case '(', '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ')', ']', '}':
			depth = max(0, depth-1)
		case '#':
			_, text, _ = strings.Cut(text, "\n")
		case '`':
			_, text, _ = strings.Cut(text, "`")
		case '"':
			text = afterString(text)
		case '$':
			return math.MaxInt
		}
	}
	return deepest
}

// afterString returns what follows a string, which ends with its line at the latest.
func afterString(text string) string {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"', '\n':
			return text[i+1:]
		}
	}
	return ""
}
