package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// costly is a claim with as many requests and alternatives as the API allows, and with
// distinct tolerations in each list that several policies report.
func costly(perList int) *resourceapi.ResourceClaim {
	claim := asking()
	claim.Spec.Devices.Requests = nil
	seconds := int64(100000)
	for i := range 32 {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("request-%d", i)}
		for j := range 8 {
			sub := resourceapi.DeviceSubRequest{Name: fmt.Sprintf("alternative-%d", j), DeviceClassName: "gpu.example.com"}
			for range perList {
				seconds++
				sub.Tolerations = append(sub.Tolerations, resourceapi.DeviceToleration{Key: "gpu.nvidia.com/xid", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(seconds)})
			}
			request.FirstAvailable = append(request.FirstAvailable, sub)
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

// TestCostlyClaims: a claim at the maximum of the API is refused before it costs anything,
// and the error names the field and the limit of the site.
func TestCostlyClaims(t *testing.T) {
	e := engine(t, policy.Settings{}, policy.Library())
	for _, perList := range []int{4, 16, 20, 28, 40} {
		req := writing(costly(perList))
		begin := cpuTime(t)
		d := e.Evaluate(t.Context(), req)
		used := cpuTime(t) - begin
		if len(d.Failures) != 1 || !d.Failures[0].TooLarge || d.Failures[0].Mode != policy.Warn && d.Failures[0].Mode != policy.Deny {
			t.Fatalf("%d tolerations in a list: %+v", perList, d)
		}
		want := fmt.Sprintf("too expensive to check: %d tolerations, at most 512 are allowed (policies.limits.tolerations)", 256*perList)
		if got := d.Failures[0]; got.Err.Error() != want || got.Path != "spec.devices.requests" {
			t.Errorf("%s: %v, want %s", got.Path, got.Err, want)
		}
		if used > 20*time.Millisecond {
			t.Errorf("%d tolerations in a list: used %v", perList, used)
		}
	}
}

// TestLimits: each limit, its setting, and the objects that they apply to.
func TestLimits(t *testing.T) {
	large := asking(resourceapi.DeviceToleration{})
	large.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}}}}
	large.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"a": "` + strings.Repeat("a", 200<<10) + `"}`)
	class := &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Config: []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: large.Spec.Devices.Config[0].DeviceConfiguration}}}}
	template := &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: *claimOf(32, 8, true).Spec.DeepCopy()}}
	for name, tt := range map[string]struct {
		req    policy.Request
		limits policy.Limits
		want   string
	}{
		"the largest that is evaluated": {writing(claimOf(32, 4, true)), policy.Limits{}, ""},
		"distinct tolerations":          {policy.Request{Kind: "ResourceClaimTemplate", Object: template}, policy.Limits{}, "spec.spec.devices.requests: 256 distinct tolerations, at most 128 are allowed (policies.limits.distinctTolerations)"},
		"bytes of a claim":              {writing(large), policy.Limits{}, "spec: %d bytes, at most 131072 are allowed (policies.limits.bytes)"},
		"bytes of a class":              {policy.Request{Kind: "DeviceClass", Object: class}, policy.Limits{}, "spec: %d bytes, at most 131072 are allowed (policies.limits.bytes)"},
		"higher limits":                 {policy.Request{Kind: "ResourceClaimTemplate", Object: template}, policy.Limits{DistinctTolerations: 256}, ""},
		"lower limits":                  {writing(claimOf(1, 3, true)), policy.Limits{Tolerations: 2}, "spec.devices.requests: 3 tolerations, at most 2 are allowed (policies.limits.tolerations)"},
	} {
		got := ""
		for _, f := range engine(t, policy.Settings{Limits: tt.limits, Timeout: time.Minute}, policy.Library()).Evaluate(t.Context(), tt.req).Failures {
			got = strings.Replace(f.Path+": "+f.Err.Error(), "too expensive to check: ", "", 1)
		}
		if strings.Contains(tt.want, "%d") {
			var size int
			if _, err := fmt.Sscanf(got, "spec: %d bytes", &size); err != nil {
				t.Errorf("%s: %s", name, got)
			}
			tt.want = fmt.Sprintf(tt.want, size)
		}
		if got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tt.want)
		}
	}
}

// TestLimitsOfJSON: the whole object counts where a policy reads it.
func TestLimitsOfJSON(t *testing.T) {
	e := engine(t, policy.Settings{Limits: policy.Limits{Bytes: 1000}}, source(header+"deny contains {\"paths\": [], \"message\": x} if x := input.raw.metadata.name\n"))
	req := writing(asking(resourceapi.DeviceToleration{}))
	req.Raw = []byte(`{"metadata": {"name": "` + strings.Repeat("x", 1000) + `"}}`)
	if d := e.Evaluate(t.Context(), req); len(d.Failures) != 1 || !strings.Contains(d.Failures[0].Err.Error(), "1026 bytes of JSON, at most 1000 are allowed") {
		t.Errorf("%+v", d)
	}
}

// TestFailuresThatNeverDeny: no failure denies a write of Kubernetes' own components, a
// slice, or an update of an unchanged specification.
func TestFailuresThatNeverDeny(t *testing.T) {
	broken := engine(t, policy.Settings{}, source(strings.NewReplacer("[ResourceClaim]", "[ResourceClaim, ResourceSlice]", "[tolerations]", "[tolerations, slice]").Replace(header)+"deny contains {\"paths\": [], \"message\": \"x\"} if to_number(input.kind) > 1\n"))
	slow := engine(t, policy.Settings{Timeout: time.Millisecond}, source(header+loop()))
	small := engine(t, policy.Settings{Limits: policy.Limits{Bytes: 1}}, source(header+"deny contains {\"paths\": [], \"message\": \"x\"} if input.kind == \"x\"\n"))
	for name, e := range map[string]*policy.Engine{"broken": broken, "slow": slow, "small": small} {
		for how, tt := range map[string]struct {
			change func(*policy.Request)
			want   policy.Mode
		}{
			"a user":           {func(*policy.Request) {}, policy.Deny},
			"claim controller": {func(r *policy.Request) { r.GeneratedBy = policy.ClaimController }, policy.Warn},
			"scheduler":        {func(r *policy.Request) { r.GeneratedBy = policy.Scheduler }, policy.Warn},
			"unchanged":        {func(r *policy.Request) { r.Old = asking(resourceapi.DeviceToleration{}) }, policy.Warn},
			"a slice":          {func(r *policy.Request) { r.Kind, r.Object = "ResourceSlice", &resourceapi.ResourceSlice{} }, policy.Warn},
			"changed":          {func(r *policy.Request) { r.Old = asking() }, policy.Deny},
		} {
			req := writing(asking(resourceapi.DeviceToleration{}))
			tt.change(&req)
			if !e.Applies(req) {
				continue
			}
			if d := e.Evaluate(t.Context(), req); len(d.Failures) != 1 || d.Failures[0].Mode != tt.want {
				t.Errorf("%s, %s: %+v, want %s", name, how, d.Failures, tt.want)
			}
		}
	}
}

// TestContext: an evaluation ends with the context of its caller.
func TestContext(t *testing.T) {
	e := engine(t, policy.Settings{Timeout: time.Hour}, source(header+loop()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if d := e.Evaluate(ctx, writing(asking(resourceapi.DeviceToleration{}))); len(d.Failures) != 1 || !d.Failures[0].TimedOut || d.Failures[0].Mode != policy.Deny {
		t.Errorf("%+v", d)
	}
}

// upTo is the numbers from 1 to n as a list in Rego.
func upTo(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "%d,", i+1)
	}
	return "[" + all.String() + "]"
}

// many reports n violations, each different.
func many(n int) policy.Collection {
	return source(header + fmt.Sprintf("deny contains {\"paths\": [\"spec\"], \"message\": concat(\" \", [\"number\", format_int(i, 10)])} if some i in %s\n", upTo(n)))
}

// TestManyViolations: the answer is bounded, whatever the policies report.
func TestManyViolations(t *testing.T) {
	for n, want := range map[int][2]string{
		10:    {"number 10", "number 9"},
		11:    {"number 1", "and 1 more"},
		1000:  {"number 1", "and 990 more"},
		12290: {"12290 violations, too many to list", "12290 violations, too many to list"},
	} {
		d := decide(t, engine(t, policy.Settings{Timeout: time.Minute}, many(n)), writing(asking(resourceapi.DeviceToleration{})))
		first, last := d.Messages[0], d.Messages[len(d.Messages)-1]
		if len(d.Messages) > 11 || last.Message != want[1] || last.Mode != policy.Deny || n != 10 && first.Message != want[0] {
			t.Errorf("%d: %d messages, from %q to %q", n, len(d.Messages), first.Message, last.Message)
		}
	}
}

// TestManyPolicies: denials are listed before warnings.
func TestManyPolicies(t *testing.T) {
	var sources []policy.Collection
	for i := range 6 {
		module := strings.NewReplacer("TEST-001", fmt.Sprintf("TEST-%d", i), "dra.custom.test", fmt.Sprintf("dra.custom.test%d", i)).Replace(header)
		if i < 5 {
			module = strings.Replace(module, "mode: deny", "mode: warn", 1)
		}
		one := source(module + "deny contains {\"paths\": [\"spec\"], \"message\": format_int(i, 10)} if some i in " + upTo(100) + "\n")
		one.Name = fmt.Sprint(i)
		sources = append(sources, one)
	}
	d := decide(t, engine(t, policy.Settings{Timeout: time.Minute}, sources...), writing(asking(resourceapi.DeviceToleration{})))
	denials, warnings := 0, map[string]string{}
	for _, m := range d.Messages {
		if m.Mode == policy.Deny {
			denials++
		} else {
			warnings[m.Code] = m.Message
		}
	}
	if denials != 11 || len(d.Messages) != 32+6 || warnings["TEST-4"] != "100 more violations that are not listed" || warnings["TEST-2"] != "and 98 more" {
		t.Errorf("%d messages, %d denials, %v", len(d.Messages), denials, warnings)
	}
}

// TestLongMessage is cut.
func TestLongMessage(t *testing.T) {
	e := engine(t, policy.Settings{}, source(header+"deny contains {\"paths\": [], \"message\": input.tolerations[0].value}\n"))
	d := decide(t, e, writing(asking(resourceapi.DeviceToleration{Value: strings.Repeat("ä", 5000)})))
	if got := d.Messages[0].Message; len(got) != 4096+3 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestRatchetOfMany: what was stored and what is new are compared in linear time.
func TestRatchetOfMany(t *testing.T) {
	e := engine(t, policy.Settings{Timeout: time.Minute}, many(1000))
	req := writing(asking(resourceapi.DeviceToleration{}))
	req.Old = asking(resourceapi.DeviceToleration{})
	for _, v := range decide(t, e, req).Violations {
		if !v.Stored || v.Mode != policy.Warn {
			t.Fatalf("%+v", v)
		}
	}
}

// TestUnreadableJSON: parameters that OPA cannot read are not hidden from the policies.
func TestUnreadableJSON(t *testing.T) {
	library := engine(t, policy.Settings{}, source(strings.Replace(header, "[tolerations]", "[configs]", 1)+"deny contains {\"paths\": c.paths, \"message\": \"forbidden\"} if {\n\tsome c in input.configs\n\tc.parameters.sharing == \"all\"\n}\n"))
	for parameters, want := range map[string]string{
		`{"sharing": "all"}`:                    "",
		`{"sharing": "all", "n": 1e300000000}`:  "spec.devices.config[0].opaque.parameters: policies cannot read the JSON",
		`{"sharing": "all", "n": 1e-300000000}`: "spec.devices.config[0].opaque.parameters: policies cannot read the JSON",
	} {
		claim := asking()
		claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}}}}
		claim.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(parameters)
		d := library.Evaluate(t.Context(), writing(claim))
		switch {
		case want == "" && (len(d.Violations) != 1 || len(d.Failures) != 0):
			t.Errorf("%s: %+v", parameters, d)
		case want != "" && (len(d.Failures) != 1 || !d.Failures[0].Unreadable || d.Failures[0].Mode != policy.Deny || !strings.HasPrefix(d.Failures[0].Path+": "+d.Failures[0].Err.Error(), want)):
			t.Errorf("%s: %+v", parameters, d)
		}
	}
}

// TestPlacesInOrder: a message names its places as people count, and the first messages are
// those of the first places.
func TestPlacesInOrder(t *testing.T) {
	deny := func(message string) string {
		return header + "deny contains {\"paths\": [path], \"message\": " + message + "} if {\n\tsome path in [sprintf(\"spec.items[%d]\", [i]) | some i in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]\n}\n"
	}
	d := decide(t, engine(t, policy.Settings{}, source(deny(`"wrong"`))), writing(asking(resourceapi.DeviceToleration{})))
	if want := "wrong; also at spec.items[1], spec.items[2] and 10 more"; len(d.Messages) != 1 || d.Messages[0].Path != "spec.items[0]" || d.Messages[0].Message != want {
		t.Errorf("%+v, want %q", d.Messages, want)
	}
	d = decide(t, engine(t, policy.Settings{}, source(deny(`concat(" ", ["wrong", path])`))), writing(asking(resourceapi.DeviceToleration{})))
	if len(d.Messages) != 11 || d.Messages[9].Path != "spec.items[9]" || d.Messages[10].Message != "and 3 more" {
		t.Errorf("%+v", d.Messages)
	}
}
