package webhook_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/manifest/example"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestEveryTextNamesItsRule: what the webhook says about any example of any rule, in any
// mode, ends with IDs that "explain" has a section for.
func TestEveryTextNamesItsRule(t *testing.T) {
	k := knownIDs(t)
	for _, of := range []struct {
		files fs.FS
		ids   []string
	}{
		{validate.Examples, idsOf(validate.Rules(), func(d validate.Description) string { return d.ID })},
		{mutate.Examples, idsOf(mutate.Defaults(), func(d mutate.Description) string { return d.ID })},
	} {
		for _, id := range of.ids {
			e, err := example.Load(of.files, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, mode := range []v1alpha1.Mode{v1alpha1.ModeDefault, v1alpha1.ModeWarn} {
				k.walk(t, e, mode)
			}
		}
	}
	for _, id := range []string{"guard-impact", "guard-error", "guard-window", "patch-effect", "DRA-RULE-004", "DRA-TOL-001", "device-taints-max", "taint-time-past"} {
		if !k.named[id] {
			t.Errorf("no answer names %s; this test is there to see it", id)
		}
	}
}

func idsOf[D any](all []D, id func(D) string) (ids []string) {
	for _, d := range all {
		ids = append(ids, id(d))
	}
	return ids
}

// A namer knows the IDs of "explain", and which of them answers name.
type namer struct {
	set          *policy.Set
	known, named map[string]bool
	reviewers    map[string]review.Reviewer // by mode and configuration
}

func knownIDs(t *testing.T) *namer {
	t.Helper()
	k := &namer{known: map[string]bool{}, named: map[string]bool{}, reviewers: map[string]review.Reviewer{}}
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	if k.set, err = policy.Parse(t.Context(), policy.Library()); err != nil {
		t.Fatal(err)
	}
	for _, entry := range slices.Concat(book, rulebook.Policies(k.set)) {
		k.known[entry.ID] = true
	}
	return k
}

var naming = regexp.MustCompile(`\(dra-steward rules?:? ([a-zA-Z0-9-]+(?:, [a-zA-Z0-9-]+)*)\)$`)

// check reports texts of an answer that name no rule.
func (k *namer) check(t *testing.T, response admission.Response) {
	t.Helper()
	texts := slices.Clone(response.Warnings)
	if !response.Allowed {
		texts = append(texts, response.Result.Message)
		if response.Result.Details != nil {
			for _, cause := range response.Result.Details.Causes {
				texts = append(texts, cause.Message)
			}
		}
	}
	for _, text := range texts {
		found := naming.FindStringSubmatch(text)
		if found == nil {
			t.Errorf("names no rule: %s", text)
			continue
		}
		for id := range strings.SplitSeq(found[1], ", ") {
			if k.named[id] = true; !k.known[id] {
				t.Errorf("explain does not know %s: %s", id, text)
			}
		}
	}
}

// reviewer returns the reviewer of a site, which is made once: engines of the whole library
// are costly.
func (k *namer) reviewer(t *testing.T, mode v1alpha1.Mode, configuration []byte) review.Reviewer {
	t.Helper()
	key := string(mode) + "\n" + string(configuration)
	if made, ok := k.reviewers[key]; ok {
		return made
	}
	site := v1alpha1.StewardConfiguration{Mode: mode}
	if err := yaml.Unmarshal(configuration, &site); err != nil {
		t.Fatal(err)
	}
	reviewer, err := review.New(site)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := review.GuardSettings(site)
	if err != nil {
		t.Fatal(err)
	}
	if reviewer.GuardPolicies, err = policy.NewEngine(k.set, settings); err != nil {
		t.Fatal(err)
	}
	settings, err = review.PolicySettings(site)
	if err != nil {
		t.Fatal(err)
	}
	if reviewer.Policies, err = policy.NewEngine(k.set, settings); err != nil {
		t.Fatal(err)
	}
	k.reviewers[key] = reviewer
	return reviewer
}

// walk asks all endpoints about the cases of an example.
func (k *namer) walk(t *testing.T, e example.Example, mode v1alpha1.Mode) {
	t.Helper()
	reviewer := k.reviewer(t, mode, e.Site)
	reviewer.ClusterView = objectsOf(t, e.Existing)
	sum := &guard.Sum{}
	for _, reviewer.Impacts = range []review.Impacts{hits{}, hits{guard.Impact{Counts: guard.Counts{Pods: 99, Claims: 99, Devices: 99}, Sum: sum}, nil}, hits{err: errors.New("not read yet")}} {
		for i := range e.Cases {
			for _, handler := range []func(webhook.ReviewerFunc, webhook.Options) admission.Handler{webhook.Mutating, webhook.Validating, webhook.Guarding} {
				k.check(t, handler(webhook.Always(reviewer), webhook.Options{}).Handle(t.Context(), requestOf(t, e.Cases[i])))
			}
		}
	}
}

// hits answers every question about an impact with the same.
type hits struct {
	impact guard.Impact
	err    error
}

func (h hits) Admit(_ context.Context, _ guard.Write, decide func(guard.Impact) bool) error {
	if h.err == nil {
		decide(h.impact)
	}
	return h.err
}

// requestOf is the request to write a case.
func requestOf(t *testing.T, c example.Case) admission.Request {
	t.Helper()
	raw := func(manifest []byte) runtime.RawExtension {
		if len(manifest) == 0 {
			return runtime.RawExtension{}
		}
		data, err := yaml.YAMLToJSON(manifest)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw(c.Object), OldObject: raw(c.Old)}}
	if len(c.Old) > 0 {
		req.Operation = admissionv1.Update
	}
	if err := yaml.Unmarshal(c.User, &req.UserInfo); err != nil {
		t.Fatal(err)
	}
	var written struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(c.Object, &written); err != nil {
		t.Fatal(err)
	}
	version := written.GroupVersionKind()
	req.Kind, req.Namespace = metav1.GroupVersionKind(version), written.Namespace
	return req
}

// objectsOf are the objects of a file, nil if there is none.
func objectsOf(t *testing.T, documents []byte) validate.ClusterView {
	t.Helper()
	if documents == nil {
		return nil
	}
	world := &validate.Objects{}
	kinds := map[string]func() any{
		"DeviceClass": func() any { return &resourceapi.DeviceClass{} }, "ResourceSlice": func() any { return &resourceapi.ResourceSlice{} },
		"ResourceSlicePatch": func() any { return &v1alpha1.ResourceSlicePatch{} }, "ResourceClaim": func() any { return &resourceapi.ResourceClaim{} },
	}
	for document := range strings.SplitSeq(string(documents), "---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		object := kinds[kind.Kind]()
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		world.Add(object)
	}
	return world
}

// TestRefusalsNameTheirRule: so do the answers to what is not checked.
func TestRefusalsNameTheirRule(t *testing.T) {
	k := knownIDs(t)
	source := webhook.Always(review.Reviewer{})
	request := func(operation admissionv1.Operation, kind metav1.GroupVersionKind, resource, object string) admission.Request {
		return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, Kind: kind,
			Resource: metav1.GroupVersionResource{Resource: resource}, Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(object)}}}
	}
	claims, pod, configMap := metav1.GroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim")),
		metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	validating := webhook.Validating(source, webhook.Options{})
	pods := webhook.PodDeletions(validating, podWorld{}, source, webhook.Options{})
	site, err := review.New(v1alpha1.StewardConfiguration{DriverPods: drivers})
	if err != nil {
		t.Fatal(err)
	}
	unread := webhook.DriverPodDeletions(validating, &driverWorld{err: errors.New("not read yet")}, webhook.Always(site), webhook.Options{})
	policies := webhook.PolicyConfigMaps(validating, func(context.Context, *corev1.ConfigMap, bool) error { return errors.New("rego_parse_error") }, webhook.Options{})
	for name, response := range map[string]admission.Response{
		"operation":  validating.Handle(t.Context(), request("EVICT", claims, "resourceclaims", "{}")),
		"kind":       validating.Handle(t.Context(), request("CREATE", pod, "pods", "{}")),
		"form":       validating.Handle(t.Context(), request("CREATE", claims, "resourceclaims", "[]")),
		"pod":        pods.Handle(t.Context(), request("DELETE", pod, "pods", "{")),
		"driver":     unread.Handle(t.Context(), ending(t, "jane", driverPod("driver-a"), false)),
		"policies":   policies.Handle(t.Context(), request("CREATE", configMap, "configmaps", "{}")),
		"config map": policies.Handle(t.Context(), request("CREATE", configMap, "configmaps", "[]")),
	} {
		if response.Allowed && len(response.Warnings) == 0 {
			t.Errorf("%s: nothing is said", name)
		}
		k.check(t, response)
	}
	if want := []string{"driver-pod-in-use", "pod-force-deletion", "policy-config-map", "request-error"}; !slices.Equal(slices.Sorted(maps.Keys(k.named)), want) {
		t.Errorf("named %v, want %v", k.named, want)
	}
}

// TestTextsAreNamed: every place of the package that writes a warning or the message of a
// denial does so with the function that adds the ID of the rule.
func TestTextsAreNamed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	places, positions := 0, token.NewFileSet()
	inspect := func(n ast.Node) bool {
		var text []ast.Expr
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && (key.Name == "Message" || key.Name == "Warnings") {
				text = append(text, n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field, is := to.(*ast.SelectorExpr); is && (field.Sel.Name == "Message" || field.Sel.Name == "Warnings") {
					text = append(text, n.Rhs[i])
				}
			}
		case *ast.CallExpr:
			if function, is := n.Fun.(*ast.SelectorExpr); is && function.Sel.Name == "Error" && len(n.Args) == 3 {
				text = append(text, n.Args[1])
			} else if is && slices.Contains([]string{"Errored", "Denied", "WithWarnings"}, function.Sel.Name) && len(n.Args) > 0 {
				text = append(text, n.Args[len(n.Args)-1])
			}
		}
		for _, e := range text {
			if places++; !names(e) {
				t.Errorf("%s: writes a text without the ID of a rule: use named", positions.Position(e.Pos()))
			}
		}
		return true
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(positions, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, inspect)
	}
	if places != 20 {
		t.Errorf("%d places found, want 20: is one written in another way?", places)
	}
}

// names reports whether an expression calls what adds the ID of a rule, or is the text of a
// finding, to which that is added later.
func names(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if text, isIdent := n.(*ast.Ident); isIdent && text.Name == "briefFinding" {
			is = true
		}
		if call, isCall := n.(*ast.CallExpr); isCall {
			if function, isIdent := call.Fun.(*ast.Ident); isIdent {
				is = is || slices.Contains([]string{"named", "withRule", "firstLines", "warnings"}, function.Name)
			}
		}
		return true
	})
	return is
}
