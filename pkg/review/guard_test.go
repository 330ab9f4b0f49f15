package review_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// counted answers every question with the same impact, or error.
type counted struct {
	hit guard.Impact
	err error
}

func (c counted) Admit(_ context.Context, write guard.Write, decide func(guard.Impact) bool) error {
	if rule, is := write.Object.(*resourceapi.DeviceTaintRule); is {
		c.hit.Everything = guard.Everything(rule.Spec.DeviceSelector)
	}
	if c.err == nil {
		decide(c.hit)
	}
	return c.err
}

// guarding is a Reviewer of a cluster in which everything that is written hits this.
func guarding(t *testing.T, c v1alpha1.StewardConfiguration, hit counted) review.Reviewer {
	t.Helper()
	r := withPolicies(t, c)
	settings, err := review.GuardSettings(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.GuardPolicies, err = policy.NewEngine(r.Policies.Set(), settings); err != nil {
		t.Fatal(err)
	}
	r.Impacts = hit
	return r
}

// taintRule is a rule as JSON.
func taintRule(t *testing.T, effect resourceapi.DeviceTaintEffect, driver, acknowledged string) []byte {
	t.Helper()
	rule := resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: effect}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
	if driver != "" {
		rule.Spec.DeviceSelector.Driver = &driver
	}
	if acknowledged != "" {
		rule.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: acknowledged}
	}
	data, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func guardRequest(version string, object, old []byte) review.Request {
	return review.Request{
		Kind:   schema.GroupVersionKind{Group: resourceapi.GroupName, Version: version, Kind: "DeviceTaintRule"},
		Object: object, Old: old, User: who("jane"), Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

var manyPods = counted{hit: guard.Impact{
	Counts:   guard.Counts{Devices: 31, DriverDevices: 1000, Claims: 31, Pods: 31, Namespaces: 2},
	PodNames: []string{"ml/a", "ml/b", "ml/c", "ml/d"}, NamespaceNames: []string{"ml", "web"},
	Budgets: []guard.Budget{{Namespace: "ml", Name: "workers", Pods: 30, Allowed: 1}},
}}

const hitsMany = "affects 31 allocated devices and 31 claims, 31 pods in 2 namespaces (ml, web): ml/a, ml/b, ml/c and 28 more; and 1 PodDisruptionBudget: ml/workers (30 pods, 1 can be evicted now)"

func TestGuard(t *testing.T) {
	const ex, none = resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone
	five, policies := 5, v1alpha1.Policies{Disabled: true}
	tooMany := "error DRA-RULE-004: hits 31 pods, more than the threshold of 20"
	broken := manyPods
	broken.err = errors.New("claims are not all read yet")
	for name, tt := range map[string]struct {
		configuration v1alpha1.StewardConfiguration
		hit           counted
		object, old   []byte
		// want are the beginnings of the findings, effect reports whether something is counted.
		want   []string
		effect bool
	}{
		"created":                   {hit: manyPods, object: taintRule(t, ex, "d", ""), want: []string{tooMany}, effect: true},
		"made real":                 {hit: manyPods, object: taintRule(t, ex, "d", ""), old: taintRule(t, none, "d", ""), want: []string{tooMany}, effect: true},
		"preview":                   {hit: manyPods, object: taintRule(t, none, "d", "")},
		"stopped":                   {hit: manyPods, object: taintRule(t, none, "d", ""), old: taintRule(t, ex, "d", "")},
		"applied again":             {hit: manyPods, object: taintRule(t, ex, "d", ""), old: taintRule(t, ex, "d", "")},
		"widened":                   {hit: manyPods, object: taintRule(t, ex, "", "pods<=99"), old: taintRule(t, ex, "d", ""), effect: true},
		"few":                       {hit: counted{}, object: taintRule(t, ex, "d", ""), effect: true},
		"everything":                {hit: counted{}, object: taintRule(t, ex, "", ""), want: []string{"error DRA-RULE-001: an empty selector"}, effect: true},
		"everything, and many":      {hit: manyPods, object: taintRule(t, ex, "", ""), want: []string{"error DRA-RULE-001: an empty selector"}, effect: true},
		"everything, other policy":  {v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-RULE-001": "off"}}}, manyPods, taintRule(t, ex, "", ""), nil, []string{"error DRA-RULE-004: an empty selector", tooMany}, true},
		"acknowledged":              {hit: manyPods, object: taintRule(t, ex, "", "pods<=31,namespaces<=2"), effect: true},
		"acknowledged too little":   {hit: manyPods, object: taintRule(t, ex, "d", "pods<=30"), want: []string{"error DRA-RULE-004: hits 31 pods, more than the acknowledged 30"}, effect: true},
		"acknowledged wrongly":      {hit: manyPods, object: taintRule(t, ex, "d", "pods=31"), want: []string{`error taint-rule-acknowledgement: Invalid value: "pods=31": "pods=31" has no <=`, tooMany}, effect: true},
		"higher threshold":          {v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{Thresholds: v1alpha1.GuardThresholds{Pods: new(31)}}}, manyPods, taintRule(t, ex, "d", ""), nil, nil, true},
		"lower threshold":           {v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{Thresholds: v1alpha1.GuardThresholds{Namespaces: new(1), Percent: &five}}}, manyPods, taintRule(t, ex, "d", "pods<=31"), nil, []string{"error DRA-RULE-004: hits 2 namespaces, more than the threshold of 1"}, true},
		"policies are switched off": {v1alpha1.StewardConfiguration{Policies: policies}, manyPods, taintRule(t, ex, "d", ""), nil, []string{tooMany}, true},
		"guard is switched off":     {v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{Mode: "off"}}, manyPods, taintRule(t, ex, "d", ""), nil, nil, false},
		"guard warns":               {v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{Mode: "warn"}}, manyPods, taintRule(t, ex, "d", ""), nil, []string{"warning" + strings.TrimPrefix(tooMany, "error")}, true},
		"policy warns":              {v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-RULE-004": "warn"}}}, manyPods, taintRule(t, ex, "d", ""), nil, []string{"warning" + strings.TrimPrefix(tooMany, "error")}, true},
		"no count":                  {hit: broken, object: taintRule(t, ex, "d", ""), want: []string{"error guard-error: cannot count what this would evict: claims are not all read yet"}},
		"no count, stopped":         {hit: broken, object: taintRule(t, none, "d", ""), old: taintRule(t, ex, "d", "")},
		"no count, onError":         {v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{OnError: "warn"}}, broken, taintRule(t, ex, "d", ""), nil, []string{"warning guard-error: "}, false},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := guarding(t, tt.configuration, tt.hit)
			for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
				answer, err := reviewer.Guard(guardRequest(version, tt.object, tt.old))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range answer.Findings {
					got = append(got, fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Message))
				}
				if len(got) != len(tt.want) {
					t.Fatalf("got %q, want %q", got, tt.want)
				}
				for i := range got {
					if !strings.HasPrefix(got[i], tt.want[i]) {
						t.Errorf("got %q, want %q", got[i], tt.want[i])
					}
				}
				if (answer.Effect != "") != tt.effect {
					t.Errorf("effect %q", answer.Effect)
				}
			}
		})
	}
}

// TestGuardSays reads what the author of a rule reads.
func TestGuardSays(t *testing.T) {
	answer, err := guarding(t, v1alpha1.StewardConfiguration{}, manyPods).Guard(guardRequest("v1", taintRule(t, "NoExecute", "d", ""), nil))
	if err != nil || answer.Effect != hitsMany {
		t.Errorf("%v, %s", err, answer.Effect)
	}
	want := `hits 31 pods, more than the threshold of 20; select fewer devices; or drain them with a DeviceDrain ("dra-steward drain"), which keeps to PodDisruptionBudgets; ` +
		`or, to proceed anyway, annotate it with dra-steward.io/acknowledged-impact: "pods<=31,namespaces<=2"`
	if len(answer.Findings) != 1 || answer.Findings[0].Message != want || answer.Findings[0].Path != "spec.deviceSelector" {
		t.Errorf("got %+v", answer.Findings)
	}
}

// TestGuardHintOnce: a refusal for several reasons says once what to do instead.
func TestGuardHintOnce(t *testing.T) {
	many := manyPods
	many.hit.Namespaces, many.hit.DriverDevices = 9, 40
	answer, err := guarding(t, v1alpha1.StewardConfiguration{}, many).Guard(guardRequest("v1", taintRule(t, "NoExecute", "d", ""), nil))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range answer.Findings {
		all.WriteString(f.Message + "\n")
	}
	for _, part := range []string{"31 pods, more than", "9 namespaces, more than", "31 of the 40 devices", "select fewer devices", "to proceed anyway, annotate it with"} {
		if n := strings.Count(all.String(), part); n != 1 {
			t.Errorf("%q is there %d times, want once:\n%s", part, n, &all)
		}
	}
}

// TestGuardOfDrains is for the other kind that hits pods.
func TestGuardOfDrains(t *testing.T) {
	drain := func(paused bool) []byte {
		data, err := json.Marshal(v1alpha1.DeviceDrain{Spec: v1alpha1.DeviceDrainSpec{Paused: paused, Devices: []v1alpha1.DeviceName{{Driver: "d", Pool: "p", Device: "x"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	r := guarding(t, v1alpha1.StewardConfiguration{}, manyPods)
	for name, tt := range map[string]struct {
		object, old []byte
		denied      bool
	}{
		"begins": {drain(false), nil, true},
		"paused": {drain(true), nil, false},
		"goes":   {drain(false), drain(true), true},
		"stops":  {drain(true), drain(false), false},
	} {
		answer, err := r.Guard(review.Request{Kind: v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceDrainKind), Object: tt.object, Old: tt.old, Now: time.Unix(0, 0)})
		if err != nil || answer.Denied() != tt.denied {
			t.Errorf("%s: %v, %+v", name, err, answer.Findings)
		}
	}
}

// TestGuardOfReactions is for the kind that makes drains.
func TestGuardOfReactions(t *testing.T) {
	reaction := func(mode v1alpha1.ReactionMode, key string, cordonOnly bool) []byte {
		data, err := json.Marshal(v1alpha1.DeviceReaction{Spec: v1alpha1.DeviceReactionSpec{Mode: mode, When: v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: key}}, Then: v1alpha1.ReactionDrain{CordonOnly: cordonOnly}}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	r := guarding(t, v1alpha1.StewardConfiguration{}, manyPods)
	for name, tt := range map[string]struct {
		object, old []byte
		denied      bool
	}{
		"acts":      {reaction("Act", "a", false), nil, true},
		"observes":  {reaction("Observe", "a", false), nil, false},
		"cordons":   {reaction("Act", "a", true), nil, false},
		"begins":    {reaction("Act", "a", false), reaction("", "a", false), true},
		"evicts":    {reaction("Act", "a", false), reaction("Act", "a", true), true},
		"widens":    {reaction("Act", "a", false), reaction("Act", "b", false), true},
		"unchanged": {reaction("Act", "a", false), reaction("Act", "a", false), false},
		"stops":     {reaction("Observe", "a", false), reaction("Act", "a", false), false},
	} {
		answer, err := r.Guard(review.Request{Kind: v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceReactionKind), Object: tt.object, Old: tt.old, Now: time.Unix(0, 0)})
		if err != nil || answer.Denied() != tt.denied {
			t.Errorf("%s: %v, %+v", name, err, answer.Findings)
		}
	}
}

// TestGuardAgrees holds the policy to the thresholds that the controllers have.
func TestGuardAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := guarding(t, v1alpha1.StewardConfiguration{}, counted{})
	for range 300 {
		c := guard.Counts{Devices: random.IntN(60), Claims: random.IntN(60), Pods: random.IntN(40), Namespaces: random.IntN(10)}
		if random.IntN(4) > 0 {
			c.DriverDevices = c.Devices + random.IntN(200)
		}
		var acknowledged *guard.Ceiling
		text := ""
		if random.IntN(2) == 0 {
			acknowledged = &guard.Ceiling{}
			for _, limit := range []**int{&acknowledged.Devices, &acknowledged.Claims, &acknowledged.Pods, &acknowledged.Namespaces} {
				if random.IntN(2) == 0 {
					*limit = new(random.IntN(50))
				}
			}
			if text = acknowledged.String(); text == "" {
				acknowledged = nil
			}
		}
		r.Impacts = counted{hit: guard.Impact{Counts: c}}
		answer, err := r.Guard(guardRequest("v1", taintRule(t, "NoExecute", "d", text), nil))
		if err != nil {
			t.Fatal(err)
		}
		if want := guard.DefaultThresholds().Exceeded(c, acknowledged); len(answer.Findings) != len(want) {
			t.Fatalf("%+v acknowledged %q: the policy says %+v, the thresholds %v", c, text, answer.Findings, want)
		}
	}
}

func TestGuardConfiguration(t *testing.T) {
	for name, tt := range map[string]struct {
		guard    v1alpha1.Guard
		policies v1alpha1.Policies
		want     string
	}{
		"mode":       {v1alpha1.Guard{Mode: "audit"}, v1alpha1.Policies{}, "guard.mode"},
		"onError":    {v1alpha1.Guard{OnError: "off"}, v1alpha1.Policies{}, "guard.onError"},
		"negative":   {v1alpha1.Guard{Thresholds: v1alpha1.GuardThresholds{Pods: new(-1)}}, v1alpha1.Policies{}, "guard.thresholds.pods"},
		"window":     {v1alpha1.Guard{Window: &metav1.Duration{Duration: 2 * time.Hour}}, v1alpha1.Policies{}, "guard.window"},
		"percentage": {v1alpha1.Guard{Thresholds: v1alpha1.GuardThresholds{Percent: new(101)}}, v1alpha1.Policies{}, "guard.thresholds.percent"},
		"twice": {v1alpha1.Guard{Thresholds: v1alpha1.GuardThresholds{Pods: new(1)}},
			v1alpha1.Policies{Parameters: map[string]json.RawMessage{"DRA-RULE-004": json.RawMessage(`{"maxPods":2}`)}}, "guard.thresholds: Forbidden"},
	} {
		if _, err := review.New(v1alpha1.StewardConfiguration{Guard: tt.guard, Policies: tt.policies}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
