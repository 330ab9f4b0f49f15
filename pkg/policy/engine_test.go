package policy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

func compiled(t testing.TB, sources ...policy.Collection) *policy.Set {
	t.Helper()
	set, err := policy.Parse(t.Context(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func engine(t testing.TB, settings policy.Settings, sources ...policy.Collection) *policy.Engine {
	t.Helper()
	if settings.Timeout == 0 {
		settings.Timeout = time.Minute // a busy machine may need longer than a site allows
	}
	e, err := policy.NewEngine(compiled(t, sources...), settings)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// only is Settings in which no other policy than one is in force.
func only(t testing.TB, code string) policy.Settings {
	t.Helper()
	s := policy.Settings{Modes: map[string]policy.Mode{}}
	for _, p := range compiled(t, policy.Library()).Policies() {
		if p.Code != code {
			s.Modes[p.Code] = policy.Off
		}
	}
	return s
}

// asking is a claim with a request that has tolerations.
func asking(tolerations ...resourceapi.DeviceToleration) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "training", Namespace: "team-a"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", Tolerations: tolerations},
		}}}},
	}
}

func writing(claim *resourceapi.ResourceClaim) policy.Request {
	return policy.Request{Kind: "ResourceClaim", Name: claim.Name, Namespace: claim.Namespace, User: "jane", Object: claim}
}

func decide(t testing.TB, e *policy.Engine, req policy.Request) policy.Decision {
	t.Helper()
	d := e.Evaluate(t.Context(), req)
	if len(d.Failures) > 0 {
		t.Fatalf("failures: %+v", d.Failures)
	}
	return d
}

// TestWildcardIsDenied in all its forms and places, once for all places of one form.
func TestWildcardIsDenied(t *testing.T) {
	e := engine(t, only(t, "DRA-TOL-001"), policy.Library())
	claim := asking(resourceapi.DeviceToleration{}, resourceapi.DeviceToleration{Operator: "Equal"}, resourceapi.DeviceToleration{Key: "a", Operator: "Exists"})
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: "any", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "large"}, {Name: "small", Tolerations: []resourceapi.DeviceToleration{{Operator: "Exists"}, {}}}}})
	template := &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec}}
	for kind, object := range map[string]any{"ResourceClaim": claim, "ResourceClaimTemplate": template} {
		d := decide(t, e, policy.Request{Kind: kind, Namespace: "team-a", Object: object})
		var got []string
		for _, v := range d.Violations {
			got = append(got, fmt.Sprintf("%s %s %s: %s", v.Mode, v.Code, strings.ReplaceAll(strings.Join(v.Paths, " "), "spec.spec", "spec"), v.Message))
		}
		want := []string{
			"deny DRA-TOL-001 spec.devices.requests[any].firstAvailable[small].tolerations[0].key: a toleration with an empty key tolerates every taint",
			"deny DRA-TOL-001 spec.devices.requests[gpu].exactly.tolerations[0].key spec.devices.requests[gpu].exactly.tolerations[1].key spec.devices.requests[any].firstAvailable[small].tolerations[1].key: a toleration with an empty key tolerates every taint that has no value",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", kind, got, want)
		}
	}
}

// TestAdminAccess: the policies about tolerations leave a request with admin access to DRA-CLAIM-001. The same toleration of an
// ordinary request, or of an alternative, is denied in the same claim.
func TestAdminAccess(t *testing.T) {
	monitor, mistake := resourceapi.DeviceToleration{Operator: "Exists"}, resourceapi.DeviceToleration{}
	reserved := resourceapi.DeviceToleration{Key: "gpu.nvidia.com/xid", Operator: "Exists", Effect: "NoExecute"}
	late := resourceapi.DeviceToleration{Key: "example.com/late", Effect: "NoExecute", TolerationSeconds: new(int64(7200))}
	for code, toleration := range map[string]resourceapi.DeviceToleration{
		"DRA-TOL-001": monitor, "DRA-TOL-002": monitor, "DRA-TOL-003": reserved, "DRA-TOL-004": monitor, "DRA-TOL-005": late,
	} {
		settings := only(t, code)
		settings.Modes[code] = policy.Deny
		e := engine(t, settings, policy.Library())
		claim := asking(toleration)
		claim.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
		if d := decide(t, e, writing(claim)); len(d.Violations) > 0 {
			t.Errorf("%s denies a monitor: %+v", code, d.Violations)
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests,
			resourceapi.DeviceRequest{Name: "work", Exactly: &resourceapi.ExactDeviceRequest{Tolerations: []resourceapi.DeviceToleration{toleration}}},
			resourceapi.DeviceRequest{Name: "any", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "small", Tolerations: []resourceapi.DeviceToleration{toleration}}}})
		d := decide(t, e, writing(claim))
		if len(d.Violations) != 1 || len(d.Violations[0].Paths) != 2 || strings.Contains(strings.Join(d.Violations[0].Paths, " "), "[gpu]") {
			t.Errorf("%s: want one violation of work and any, got %+v", code, d.Violations)
		}
	}
	claim := asking(mistake)
	claim.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
	if d := decide(t, engine(t, only(t, "DRA-TOL-001"), policy.Library()), writing(claim)); len(d.Violations) != 1 {
		t.Errorf("an empty key needs the operator Exists, also with admin access: %+v", d.Violations)
	}
}

// TestNothingToEvaluate: a claim without tolerations costs nothing.
func TestNothingToEvaluate(t *testing.T) {
	e := engine(t, only(t, "DRA-TOL-001"), policy.Library())
	if d := decide(t, e, writing(asking())); d.Evaluated {
		t.Errorf("%+v", d)
	}
	if d := decide(t, engine(t, policy.Settings{Disabled: true}, policy.Library()), writing(asking(resourceapi.DeviceToleration{}))); d.Evaluated {
		t.Errorf("switched off: %+v", d)
	}
}

// TestScopes: modes and parameters of a namespace count more than those of the cluster.
func TestScopes(t *testing.T) {
	settings := only(t, "DRA-TOL-001")
	settings.Modes["DRA-TOL-001"] = policy.Warn
	settings.Namespaces = []policy.Override{
		{Names: []string{"strict"}, Modes: map[string]policy.Mode{"DRA-TOL-001": policy.Deny}},
		{Names: []string{"off", "strict-off"}, Modes: map[string]policy.Mode{"DRA-TOL-001": policy.Off}},
		{Names: []string{"allowed"}, Parameters: map[string]map[string]any{"DRA-TOL-001": {"allowed": true}}},
	}
	e := engine(t, settings, policy.Library())
	for namespace, want := range map[string]string{"strict": "[deny]", "other": "[warn]", "": "[warn]", "off": "[]", "allowed": "[]"} {
		req := writing(asking(resourceapi.DeviceToleration{}))
		req.Namespace = namespace
		modes := []policy.Mode{}
		for _, v := range decide(t, e, req).Violations {
			modes = append(modes, v.Mode)
		}
		if fmt.Sprint(modes) != want {
			t.Errorf("%q: %v, want %s", namespace, modes, want)
		}
	}
	for name, settings := range map[string]policy.Settings{
		"mode":                {Modes: map[string]policy.Mode{"DRA-TOL-001": "forbid"}},
		"parameter":           {Parameters: map[string]map[string]any{"DRA-TOL-001": {"alowed": true}}},
		"type of a parameter": {Namespaces: []policy.Override{{Names: []string{"a"}, Parameters: map[string]map[string]any{"DRA-TOL-001": {"allowed": "yes"}}}}},
	} {
		if _, err := policy.NewEngine(compiled(t, policy.Library()), settings); err == nil || !strings.Contains(err.Error(), "DRA-TOL-001") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLabelledScopes: settings for namespaces by their labels, of which the last one that
// applies wins; a policy that is on in one namespace only is evaluated there.
func TestLabelledScopes(t *testing.T) {
	mode := func(m policy.Mode) map[string]policy.Mode { return map[string]policy.Mode{"DRA-TOL-001": m} }
	settings := only(t, "DRA-TOL-001")
	settings.Modes["DRA-TOL-001"] = policy.Off
	gold := labels.SelectorFromSet(labels.Set{"tier": "gold"})
	for name, tt := range map[string]struct {
		overrides []policy.Override
		want      map[string]string
	}{
		"by name": {[]policy.Override{{Names: []string{"a"}, Modes: mode(policy.Warn)}},
			map[string]string{"a": "[warn]", "b": "[]"}},
		"by label": {[]policy.Override{{Selector: gold, Modes: mode(policy.Warn)}},
			map[string]string{"a gold": "[warn]", "a": "[]"}},
		"both": {[]policy.Override{{Selector: gold, Modes: mode(policy.Warn)}, {Names: []string{"a"}, Modes: mode(policy.Deny)}},
			map[string]string{"a gold": "[deny]", "b gold": "[warn]", "a": "[deny]", "b": "[]"}},
	} {
		settings.Namespaces = tt.overrides
		e := engine(t, settings, policy.Library())
		for namespace, want := range tt.want {
			req := writing(asking(resourceapi.DeviceToleration{}))
			var tier string
			req.Namespace, tier, _ = strings.Cut(namespace, " ")
			req.ClusterData = facts{"tier": tier}
			modes := []policy.Mode{}
			for _, v := range decide(t, e, req).Violations {
				modes = append(modes, v.Mode)
			}
			if fmt.Sprint(modes) != want {
				t.Errorf("%s: %q: %v, want %s", name, namespace, modes, want)
			}
		}
	}
}

// TestUpdate: what is stored already and has not grown only warns.
func TestUpdate(t *testing.T) {
	e := engine(t, only(t, "DRA-TOL-001"), policy.Library())
	for name, tt := range map[string]struct {
		old  *resourceapi.ResourceClaim
		want policy.Mode
	}{
		"the same":    {asking(resourceapi.DeviceToleration{}), policy.Warn},
		"better":      {asking(resourceapi.DeviceToleration{}, resourceapi.DeviceToleration{}), policy.Warn},
		"another one": {asking(resourceapi.DeviceToleration{Operator: "Exists"}), policy.Deny},
		"none":        {asking(), policy.Deny},
	} {
		req := writing(asking(resourceapi.DeviceToleration{}))
		req.Old = tt.old
		if d := decide(t, e, req); len(d.Violations) != 1 || d.Violations[0].Mode != tt.want {
			t.Errorf("%s: %+v", name, d.Violations)
		}
	}
}

// TestCacheKnowsWhatMatters: the same claim under another name is known; anything that a
// policy can see makes another decision.
func TestCacheKnowsWhatMatters(t *testing.T) {
	e := engine(t, only(t, "DRA-TOL-001"), policy.Library())
	first := writing(asking(resourceapi.DeviceToleration{}))
	if d := decide(t, e, first); d.Cached {
		t.Error("the first is known")
	}
	named := first
	named.Name, named.Now = "other", time.Now()
	if d := decide(t, e, named); !d.Cached || len(d.Violations) != 1 {
		t.Errorf("another name: %+v", d)
	}
	for name, change := range map[string]func(*policy.Request){
		"user":      func(r *policy.Request) { r.User = "joe" },
		"groups":    func(r *policy.Request) { r.Groups = []string{"a"} },
		"namespace": func(r *policy.Request) { r.Namespace = "b" },
		"dry run":   func(r *policy.Request) { r.DryRun = true },
		"update":    func(r *policy.Request) { r.Old = asking() },
		"author":    func(r *policy.Request) { r.GeneratedBy = policy.Scheduler },
		"labels":    func(r *policy.Request) { r.ClusterData = facts{"a": "b"} },
		"spec":      func(r *policy.Request) { r.Object = asking(resourceapi.DeviceToleration{Value: "x"}) },
		"template": func(r *policy.Request) {
			r.Kind, r.Object = "ResourceClaimTemplate", &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: asking(resourceapi.DeviceToleration{}).Spec}}
		},
	} {
		changed := first
		change(&changed)
		if d := decide(t, e, changed); d.Cached {
			t.Errorf("%s: known", name)
		}
		if d := decide(t, e, changed); !d.Cached {
			t.Errorf("%s: not known the second time", name)
		}
	}
}

type facts map[string]string

func (f facts) NamespaceLabels(string) map[string]string { return f }
func (f facts) TaintKey(string) (bool, bool)             { return false, false }

// TestReadingTheTimeIsNotKept, however input is read.
func TestReadingTheTimeIsNotKept(t *testing.T) {
	for _, rule := range []string{"some x in [input.now]", "x := input.raw.metadata.name", "i := input\n\tx := i.now", "some k in [\"now\"]\n\tx := input[k]"} {
		e := engine(t, policy.Settings{}, source(header+"deny contains {\"paths\": [], \"message\": x} if {\n\t"+rule+"\n}\n"))
		req := writing(asking(resourceapi.DeviceToleration{}))
		req.Now, req.Raw = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), []byte(`{"metadata": {"name": "training"}}`)
		for range 2 {
			d := decide(t, e, req)
			if d.Cached || len(d.Violations) != 1 || d.Violations[0].Message != "2026-01-02T03:04:05Z" && d.Violations[0].Message != "training" {
				t.Errorf("%s: %+v", rule, d)
			}
		}
	}
}

// TestFailures: a policy that is broken at run time is named, and the others judge.
func TestFailures(t *testing.T) {
	for name, rule := range map[string]string{
		"built-in error": "deny contains {\"paths\": [], \"message\": \"x\"} if to_number(input.tolerations[0].value) > 1\n",
		"no message":     "deny contains {\"paths\": []}\n",
		"a text":         "deny contains \"x\"\n",
		"paths":          "deny contains {\"message\": \"x\", \"paths\": [1]}\n",
		"hint":           "deny contains {\"message\": \"x\", \"paths\": [], \"hint\": 1}\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(t, only(t, "DRA-TOL-001"), policy.Library(), source(header+rule))
			d := e.Evaluate(t.Context(), writing(asking(resourceapi.DeviceToleration{Value: "abc"})))
			if len(d.Failures) != 1 || d.Failures[0].Code != "TEST-001" || d.Failures[0].Mode != policy.Deny || d.Failures[0].TimedOut {
				t.Errorf("failures %+v", d.Failures)
			}
			if len(d.Violations) != 1 || d.Violations[0].Code != "DRA-TOL-001" {
				t.Errorf("violations %+v", d.Violations)
			}
			if d := e.Evaluate(t.Context(), writing(asking(resourceapi.DeviceToleration{Value: "abc"}))); d.Cached {
				t.Error("a failure is kept")
			}
		})
	}
}

// loop is a rule of nine million steps.
func loop() string {
	return fmt.Sprintf(`deny contains {"paths": [], "message": "x"} if {
	some a in numbers
	some b in numbers
	some c in numbers
	a + b + c < 0
}

numbers := %s
`, upTo(208))
}

// TestDeadline: an evaluation of nine million steps ends when its time is over.
func TestDeadline(t *testing.T) {
	e := engine(t, policy.Settings{Timeout: 50 * time.Millisecond}, source(header+loop()))
	begin := time.Now()
	d := e.Evaluate(t.Context(), writing(asking(resourceapi.DeviceToleration{})))
	if len(d.Failures) != 1 || !d.Failures[0].TimedOut || d.Failures[0].Mode != policy.Deny {
		t.Errorf("%+v", d)
	}
	t.Logf("ended after %v", time.Since(begin))
}

// TestEndsBeforeTheCaller: an evaluation that takes too long ends while its caller still waits, so that the caller reads what
// follows from the mode of the policy. Where the processor is busy the caller can see it later: of the evaluations of two
// minutes, one is enough, because one that ends with its caller is never seen to end before it.
func TestEndsBeforeTheCaller(t *testing.T) {
	e := engine(t, policy.Settings{Timeout: time.Minute}, source(header+loop()))
	evaluate := func(wait time.Duration) (before bool) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		d := e.Evaluate(ctx, writing(asking(resourceapi.DeviceToleration{})))
		before = ctx.Err() == nil
		if len(d.Failures) != 1 || !d.Failures[0].TimedOut {
			t.Errorf("%s: %+v", wait, d)
		}
		return before
	}
	evaluate(10 * time.Millisecond)
	for begin := time.Now(); !evaluate(300*time.Millisecond) && !t.Failed(); {
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("no evaluation ends before its caller")
		}
	}
}
