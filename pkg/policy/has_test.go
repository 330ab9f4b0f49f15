package policy_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

type keysKnown map[string]bool

func (keysKnown) NamespaceLabels(string) map[string]string { return nil }

func (k keysKnown) TaintKey(key string) (known, sure bool) { return k[key], true }

// TestHas: the summary by which policies see that they have nothing to look for agrees
// with what stands in the claim, single field by field. A policy that trusts it would
// otherwise pass over what it is there for.
func TestHas(t *testing.T) {
	dump := source(header + "deny contains {\"paths\": [], \"message\": json.marshal(input.has)} if { true }\n")
	e := engine(t, policy.Settings{CacheBytes: -1}, dump)
	seconds := func(n int64) *int64 { return &n }
	yes := true
	const nothing = `{"adminAccess":false,"all":false,"alternatives":false,"constantSelector":false,"endless":false,"ineffective":false,"keys":{"a":true},"longest":0,"longestList":1,"openClass":false,"unknownKey":false,"wildcard":false}`
	for name, tt := range map[string]struct {
		change func(*resourceapi.ExactDeviceRequest, *resourceapi.DeviceToleration)
		want   []string
	}{
		"nothing":      {func(*resourceapi.ExactDeviceRequest, *resourceapi.DeviceToleration) {}, nil},
		"wildcard":     {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) { t.Key = "" }, []string{`"wildcard":true`, `"keys":{"":true}`, `"unknownKey":false`}},
		"empty effect": {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) { t.Effect = "" }, []string{`"endless":true`}},
		"endless":      {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) { t.Effect = "NoExecute" }, []string{`"endless":true`}},
		"longest": {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) {
			t.Effect, t.TolerationSeconds = "NoExecute", seconds(7)
		}, []string{`"longest":7`}},
		"negative": {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) {
			t.Effect, t.TolerationSeconds = "", seconds(-7)
		}, []string{`"ineffective":true`}},
		"seconds": {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) {
			t.TolerationSeconds = seconds(7)
		}, []string{`"ineffective":true`}},
		"effect None": {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) { t.Effect = "None" }, []string{`"ineffective":true`}},
		"twice": {func(r *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) {
			r.Tolerations = append(r.Tolerations, *t)
		}, []string{`"ineffective":true`, `"longestList":2`}},
		"domain":       {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) { t.Key = "d/b" }, []string{`"keys":{"d/*":true,"d/b":true}`, `"unknownKey":true`}},
		"unknown":      {func(_ *resourceapi.ExactDeviceRequest, t *resourceapi.DeviceToleration) { t.Key = "b" }, []string{`"unknownKey":true`, `"keys":{"b":true}`}},
		"all":          {func(r *resourceapi.ExactDeviceRequest, _ *resourceapi.DeviceToleration) { r.AllocationMode = "All" }, []string{`"all":true`}},
		"admin access": {func(r *resourceapi.ExactDeviceRequest, _ *resourceapi.DeviceToleration) { r.AdminAccess = &yes }, []string{`"adminAccess":true`}},
		"constant": {func(r *resourceapi.ExactDeviceRequest, _ *resourceapi.DeviceToleration) {
			r.Selectors = []resourceapi.DeviceSelector{{}, {CEL: &resourceapi.CELDeviceSelector{Expression: " true\n"}}}
		}, []string{`"constantSelector":true`}},
		"other selector": {func(r *resourceapi.ExactDeviceRequest, _ *resourceapi.DeviceToleration) {
			r.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true && x"}}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			exact := &resourceapi.ExactDeviceRequest{DeviceClassName: "c"}
			toleration := resourceapi.DeviceToleration{Key: "a", Operator: "Exists", Effect: "NoSchedule"}
			tt.change(exact, &toleration)
			exact.Tolerations = append(exact.Tolerations, toleration)
			claim := asking()
			claim.Spec.Devices.Requests[0].Exactly = exact
			alternative := asking()
			alternative.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
				{Name: "first", DeviceClassName: "c"},
				{Name: "second", DeviceClassName: "c", Tolerations: exact.Tolerations, AllocationMode: exact.AllocationMode, Selectors: exact.Selectors},
			}}}
			want := nothing
			for _, change := range tt.want {
				field, _, _ := strings.Cut(change, ":")
				from := strings.Index(want, field)
				to := from + strings.IndexAny(want[from:], ",}")
				if strings.Contains(change, "{") {
					to++
				}
				want = want[:from] + change + want[to:]
			}
			for object, want := range map[*resourceapi.ResourceClaim]string{claim: want, alternative: strings.Replace(want, `"alternatives":false`, `"alternatives":true`, 1)} {
				req := writing(object)
				req.Facts = keysKnown{"a": true, "": true}
				got := decide(t, e, req).Violations[0].Message
				if object == alternative {
					want = strings.Replace(want, `"adminAccess":true`, `"adminAccess":false`, 1)
				}
				if got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}
