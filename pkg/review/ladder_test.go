package review_test

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// inMode answers a claim with three tolerations, where two are allowed, of which one
// tolerates everything, as the webhook does.
func inMode(t *testing.T, c v1alpha1.StewardConfiguration) (mutated, validated review.Answer) {
	t.Helper()
	c.Limits.TolerationsPerRequest = 2
	reviewer, err := review.New(c)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := review.PolicySettings(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	if reviewer.Policies, err = policy.NewEngine(set, settings); err != nil {
		t.Fatal(err)
	}
	reviewer.InCluster = true
	req := review.Request{
		Kind:      schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
		Namespace: "team", User: &authenticationv1.UserInfo{Username: "jane"},
		Object: []byte(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a","namespace":"team"},
			"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu","allocationMode":"All",
			"tolerations":[{},{"key":"a","operator":"Exists","effect":"NoSchedule"},{"key":"b","operator":"Exists","effect":"NoSchedule"}]}}]}}}`),
	}
	if mutated, err = reviewer.Mutate(req); err != nil {
		t.Fatal(err)
	}
	if validated, err = reviewer.Validate(req); err != nil {
		t.Fatal(err)
	}
	return mutated, validated
}

// rulesOf lists the findings of a severity by rule.
func rulesOf(findings []review.Finding, severity validate.Severity) string {
	var rules []string
	for _, f := range findings {
		if f.Severity == severity {
			rules = append(rules, f.Rule)
		}
	}
	return strings.Join(rules, " ")
}

// TestModes walks the ladder with one claim: a limit of the site, a policy that repeats
// the documented API (DRA-TOL-001), and one that advises (DRA-CLAIM-002).
func TestModes(t *testing.T) {
	const limit, documented, advice = "request-tolerations-max", "DRA-TOL-001", "DRA-CLAIM-002"
	for mode, want := range map[v1alpha1.Mode]struct {
		denied, warned, audited []string
		changes                 bool
	}{
		v1alpha1.ModeObserve: {audited: []string{limit, documented, advice}},
		v1alpha1.ModeWarn:    {warned: []string{limit, documented, advice}, changes: true},
		"":                   {denied: []string{limit, documented}, warned: []string{advice}, changes: true},
		v1alpha1.ModeEnforce: {denied: []string{limit, documented, advice}, changes: true},
	} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			mutated, validated := inMode(t, v1alpha1.StewardConfiguration{Mode: mode})
			if (len(mutated.Changes) > 0) != want.changes || len(validated.Changes) > 0 {
				t.Errorf("fills in %v, want that to be %v", mutated.Changes, want.changes)
			}
			if validated.Denied() != (want.denied != nil) {
				t.Errorf("denied is %v: %v", validated.Denied(), validated.Findings)
			}
			var audited []string
			for _, f := range validated.Audited {
				audited = append(audited, f.Rule)
			}
			for what, of := range map[string]struct {
				got  string
				want []string
			}{
				"denied":  {rulesOf(validated.Findings, validate.Error), want.denied},
				"warned":  {rulesOf(validated.Findings, validate.Warning), want.warned},
				"audited": {strings.Join(audited, " "), want.audited},
			} {
				for _, rule := range of.want {
					if !strings.Contains(of.got, rule) {
						t.Errorf("%s: %q lacks %s", what, of.got, rule)
					}
				}
				if of.want == nil && of.got != "" {
					t.Errorf("%s: %q, want nothing", what, of.got)
				}
			}
			if mode == v1alpha1.ModeObserve && len(mutated.Findings) > 0 {
				t.Errorf("who writes sees %v", mutated.Findings)
			}
		})
	}
}

// TestObserveWritesPatches: in the mode observe, patches are written into slices, and taken out, as the
// administrator asks for apart from the mode.
func TestObserveWritesPatches(t *testing.T) {
	p := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"dc.example.com/rack": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To("r1")}}}
	driver := &resourceapi.ResourceSlice{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", AllNodes: ptr.To(true), Devices: []resourceapi.Device{{Name: "gpu-0"}}}}
	merger := func(mode slicemerge.Mode, patches ...*v1alpha1.ResourceSlicePatch) *slicemerge.Merger {
		return slicemerge.NewMerger(mode, slicemerge.Patches{
			All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) }, Known: func() bool { return true }}, nil, nil, logr.Discard())
	}
	patched := merger(slicemerge.Materialize, p).Merge(t.Context(), driver, nil, time.Now(), review.AcceptableSlice).Slice
	for what, tt := range map[string]struct {
		merger *slicemerge.Merger
		stored *resourceapi.ResourceSlice
	}{
		"written":                  {merger(slicemerge.Materialize, p), driver},
		"taken out with its patch": {merger(slicemerge.Materialize), patched},
		"restored":                 {merger(slicemerge.Restore), patched},
		"off":                      {merger(slicemerge.None), patched},
	} {
		reviewer, err := review.New(v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeObserve})
		if err != nil {
			t.Fatal(err)
		}
		reviewer.InCluster, reviewer.Slices = true, tt.merger
		object, err := json.Marshal(tt.stored)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := reviewer.Mutate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: object, Old: object, Now: time.Now()})
		if err != nil || len(answer.Changes) == 0 || len(answer.Withheld) > 0 {
			t.Errorf("%s: %d changes, %d withheld, %v", what, len(answer.Changes), len(answer.Withheld), err)
		}
	}
}

// TestObserveWarnsOfNoDefault: what a default finds and leaves as it is, is for the audit log, too.
func TestObserveWarnsOfNoDefault(t *testing.T) {
	for mode, warned := range map[v1alpha1.Mode]string{v1alpha1.ModeObserve: "", v1alpha1.ModeWarn: "toleration-rewrite", "": "toleration-rewrite"} {
		reviewer, err := review.New(v1alpha1.StewardConfiguration{Mode: mode, Defaults: v1alpha1.Defaults{Tolerations: &v1alpha1.Tolerations{ExpandEmptyEffect: true}}})
		if err != nil {
			t.Fatal(err)
		}
		reviewer.InCluster = true
		full := strings.TrimSuffix(strings.Repeat(`{"key":"a","operator":"Exists"},`, 16), ",")
		answer, err := reviewer.Mutate(request("v1", "ResourceClaim", "", `{"metadata":{"name":"c","namespace":"ml"},"spec":{"devices":{"requests":[
			{"name":"gpu","exactly":{"deviceClassName":"gpu","tolerations":[`+full+`]}}]}}}`, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := rulesOf(answer.Findings, validate.Warning); got != warned || len(answer.Findings)+len(answer.Audited) != 1 {
			t.Errorf("mode %q: findings %v, audited %v, want the warning %q", mode, answer.Findings, answer.Audited, warned)
		}
	}
}

// TestOverridesWin: what is set for a rule or a policy counts more than the mode.
func TestOverridesWin(t *testing.T) {
	_, answer := inMode(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeObserve,
		Rules:    map[string]v1alpha1.Rule{"request-tolerations-max": {Severity: "error"}},
		Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-001": "warn"}}})
	if rulesOf(answer.Findings, validate.Error) != "request-tolerations-max" || rulesOf(answer.Findings, validate.Warning) != "DRA-TOL-001" {
		t.Errorf("in observe: %v", answer.Findings)
	}
	_, answer = inMode(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce,
		Rules:    map[string]v1alpha1.Rule{"request-tolerations-max": {Severity: "audit"}},
		Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-001": "off"}}})
	if strings.Contains(rulesOf(answer.Findings, validate.Error), "request-tolerations-max") || strings.Contains(rulesOf(answer.Findings, validate.Error), "DRA-TOL-001") {
		t.Errorf("in enforce: %v", answer.Findings)
	}
}

// TestObserveRewritesNoTolerations: specs are immutable, so that a rewritten one stays when the mode is left.
// What was rewritten before is restored, or the same manifest could not be applied again.
func TestObserveRewritesNoTolerations(t *testing.T) {
	const claim = `{"metadata":{"name":"c","namespace":"ml","finalizers":["resource.kubernetes.io/delete-protection"]},"spec":{"devices":{"requests":[
		{"name":"gpu","exactly":{"deviceClassName":"gpu","tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute"}]}}]}}}`
	const template = `{"metadata":{"name":"c","namespace":"ml"},"spec":` + claim + `}`
	in := func(mode v1alpha1.Mode, kind, object, old string) review.Answer {
		t.Helper()
		reviewer, err := review.New(v1alpha1.StewardConfiguration{Mode: mode, Defaults: v1alpha1.Defaults{
			Tolerations: &v1alpha1.Tolerations{Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(60))}}}}})
		if err != nil {
			t.Fatal(err)
		}
		reviewer.InCluster = true
		answer, err := reviewer.Mutate(request("v1", kind, "", object, old))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for kind, object := range map[string]string{"ResourceClaim": claim, "ResourceClaimTemplate": template} {
		if answer := in(v1alpha1.ModeObserve, kind, object, ""); len(answer.Changes) > 0 || len(answer.Withheld) < 2 {
			t.Errorf("a new %s: changes %+v, withheld %+v, want all withheld", kind, answer.Changes, answer.Withheld)
		}
		stored := string(patched(t, []byte(object), in("", kind, object, "")))
		again := in(v1alpha1.ModeObserve, kind, object, stored)
		if len(again.Changes) != 2 || len(again.Withheld) > 0 || stored != string(patched(t, []byte(object), again)) {
			t.Errorf("the same manifest of a %s: changes %+v, withheld %+v, want what is stored", kind, again.Changes, again.Withheld)
		}
	}
}

func TestUnknownMode(t *testing.T) {
	if _, err := review.New(v1alpha1.StewardConfiguration{Mode: "strict"}); err == nil || !strings.Contains(err.Error(), `mode: Unsupported value: "strict": supported values: "observe", "warn", "default", "enforce"`) {
		t.Errorf("got %v", err)
	}
}
