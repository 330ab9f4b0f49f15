package chart

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// oldest is what the API server of the oldest supported minor understands.
var oldest = environment.MustBaseEnvSet(version.MajorMinor(1, 34))

// TestConditionsCompile compiles as the oldest API server does for a new webhook.
func TestConditionsCompile(t *testing.T) {
	compiler := cel.NewCompiler(oldest)
	for _, v := range []values{with(nil), with(judgingPods), with(values{"defaults": values{"finalizer": "off"}})} {
		for _, h := range render(t, v, Options{}).hooks() {
			for _, c := range h.MatchConditions {
				accessor := &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression}
				result := compiler.CompileCELExpression(accessor, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
				if result.Error != nil {
					t.Errorf("%s: %s: %v", h.Name, c.Name, result.Error)
				}
			}
		}
	}
}

const (
	finalizer = `finalizers: [resource.kubernetes.io/delete-protection]`
	other     = `finalizers: [example.com/other]`
	deleting  = `deletionTimestamp: "2026-01-01T00:00:00Z"`
	one       = `spec: {devices: {requests: [{name: one}]}}`
	two       = `spec: {devices: {requests: [{name: two}]}}`
	allocated = `status: {allocation: {}}`
)

// object writes a manifest of metadata and any other top-level fields.
func object(metadata string, more ...string) string {
	return "metadata: {name: a, " + strings.ReplaceAll(metadata, "\n", ", ") + "}\n" + strings.Join(more, "\n")
}

// TestConditions evaluates the conditions with the API server's own code. An old
// object makes the write an update.
func TestConditions(t *testing.T) {
	for name, tt := range map[string]struct {
		webhooks string
		old, new string
		values   values
		sent     bool
	}{
		"create":                       {webhooks: "claims,templates,classes,taintrules,slices.validate", new: object("", one), sent: true},
		"create without a spec":        {webhooks: "claims,templates,classes,taintrules,slices.validate", new: object(""), sent: true},
		"spec changes":                 {webhooks: "claims,templates,classes,taintrules,slices.validate", old: object("", one), new: object("", two), sent: true},
		"spec appears":                 {webhooks: "claims,templates,classes,taintrules", old: object(""), new: object("", two), sent: true},
		"label changes":                {webhooks: "claims,templates,classes,taintrules", old: object("", one), new: object("labels: {a: b}", one)},
		"unchanged slice":              {webhooks: "slices.validate", old: object("", one), new: object("", one), sent: true},
		"deletion in progress":         {webhooks: "claims,templates,classes,taintrules,slices.validate", old: object(deleting+"\n"+other, one), new: object(deleting, one)},
		"defaults during deletion":     {webhooks: "claims.mutate,templates.mutate,taintrules.mutate", old: object(deleting, one), new: object(deleting, two)},
		"spec changes during deletion": {webhooks: "classes,taintrules.validate,slices.validate", old: object(deleting, one), new: object(deleting, two), sent: true},
		"deletion that the author hid": {webhooks: "claims", old: object(deleting, one, allocated), new: object("", two)},
		"only in the new object":       {webhooks: "claims", old: object("", one), new: object(deleting, two), sent: true},

		"repair":                          {webhooks: "claims.mutate", old: object("", one, allocated), new: object("labels: {a: b}", one, allocated), sent: true},
		"repair beside another finalizer": {webhooks: "claims.mutate", old: object(other, one, allocated), new: object(other, one, allocated), sent: true},
		"repair in mode repair": {webhooks: "claims.mutate", old: object("", one, allocated), new: object("", one, allocated), sent: true,
			values: values{"defaults": values{"finalizer": "repair"}}},
		"repair in mode off": {webhooks: "claims.mutate", old: object("", one, allocated), new: object("", one, allocated),
			values: values{"defaults": values{"finalizer": "off"}}},
		"repair is no business of validation":    {webhooks: "claims.validate", old: object("", one, allocated), new: object("", one, allocated)},
		"no repair: not allocated":               {webhooks: "claims.mutate", old: object("", one, "status: {}"), new: object("", one, allocated)},
		"no repair: the scheduler adds it":       {webhooks: "claims.mutate", old: object("", one, allocated), new: object(finalizer, one, allocated)},
		"no repair: the controller removes it":   {webhooks: "claims.mutate", old: object(finalizer, one, allocated), new: object("", one, allocated)},
		"no repair: has it":                      {webhooks: "claims.mutate", old: object(finalizer, one, allocated), new: object(finalizer, one, allocated)},
		"no repair: deletion in progress":        {webhooks: "claims.mutate", old: object(deleting, one, allocated), new: object(deleting, one, allocated)},
		"allocation without finalizer":           {webhooks: "claimstatus", old: object("", one), new: object("", one, allocated), sent: true},
		"allocation, another finalizer":          {webhooks: "claimstatus", old: object(other, one, "status: {}"), new: object(other, one, allocated), sent: true},
		"allocation with finalizer":              {webhooks: "claimstatus", old: object(finalizer, one), new: object(finalizer, one, allocated)},
		"reservation of an allocated claim":      {webhooks: "claimstatus", old: object("", one, allocated), new: object("", one, "status: {allocation: {}, reservedFor: [{name: a}]}")},
		"deallocation":                           {webhooks: "claimstatus", old: object("", one, allocated), new: object("", one, "status: {}")},
		"status without an allocation ever":      {webhooks: "claimstatus", old: object("", one), new: object("", one)},
		"status of a claim that is being erased": {webhooks: "claimstatus", old: object(deleting, one), new: object(deleting, one, allocated), sent: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, with(tt.values), Options{})
			for _, prefix := range strings.Split(tt.webhooks, ",") {
				found := false
				for _, h := range r.hooks() {
					if strings.HasPrefix(h.Name, prefix+".") && !strings.Contains(h.Name, ".guard.") {
						found = true
						if sent := sends(t, h, tt.old, tt.new); sent != tt.sent {
							t.Errorf("%s: sent is %v, want %v", h.Name, sent, tt.sent)
						}
					}
				}
				if !found {
					t.Errorf("no webhook %s", prefix)
				}
			}
		})
	}
}

// sends reports whether the API server sends the write to h. A condition that fails to
// evaluate fails the test.
func sends(t *testing.T, h hook, before, after string) bool {
	t.Helper()
	return sendsAs(t, h, "someone", before, after)
}

func sendsAs(t *testing.T, h hook, name, before, after string) bool {
	t.Helper()
	var conditions []cel.ExpressionAccessor
	for _, c := range h.MatchConditions {
		conditions = append(conditions, &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	evaluator := cel.NewConditionCompiler(oldest).CompileCondition(conditions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	strict := admissionv1.Fail
	matcher := matchconditions.NewMatcher(evaluator, &strict, "webhook", "validating", h.Name)

	gvk := schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "Any"}
	resource, subresource, _ := strings.Cut(h.Rules[0].Resources[0], "/")
	operation, old := admission.Create, runtime.Object(nil)
	versioned := &admission.VersionedAttributes{VersionedKind: gvk}
	if before != "" {
		operation, old = admission.Update, parse(t, before)
		versioned.VersionedOldObject.Set(old)
	}
	versioned.VersionedObject.Set(parse(t, after))
	versioned.Attributes = admission.NewAttributesRecord(parse(t, after), old, gvk, "default", "a",
		gvk.GroupVersion().WithResource(resource), subresource, operation, nil, false, &user.DefaultInfo{Name: name})
	result := matcher.Match(t.Context(), versioned, nil, nil)
	if result.Error != nil {
		t.Errorf("%s: %v", h.Name, result.Error)
	}
	return result.Matches
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatalf("%v in:\n%s", err, manifest)
	}
	return u
}
