package policy_test

import (
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// mistake is one that a policy about claims objects to.
type mistake struct {
	parameters map[string]any
	// tolerations are lists each of which has it.
	tolerations [][]resourceapi.DeviceToleration
	// exactly and alternative make it in a request and in an alternative; nil where it
	// cannot be.
	exactly     func(*resourceapi.ExactDeviceRequest)
	alternative func(*resourceapi.DeviceSubRequest)
	// claim makes it elsewhere, at the path.
	claim func(*resourceapi.ResourceClaimSpec)
	path  string
}

// tolerating are tolerations with every operator, value and effect of some.
func tolerating(keys, effects []string, seconds *int64) (all [][]resourceapi.DeviceToleration) {
	for _, key := range keys {
		for _, operator := range []string{"", "Equal", "Exists"} {
			for _, value := range []string{"", "x"} {
				for _, effect := range effects {
					all = append(all, []resourceapi.DeviceToleration{{Key: key, Operator: resourceapi.DeviceTolerationOperator(operator),
						Value: value, Effect: resourceapi.DeviceTaintEffect(effect), TolerationSeconds: seconds}})
				}
			}
		}
	}
	return all
}

func mistakes() map[string]mistake {
	anyEffect, evicting := []string{"", "NoSchedule", "NoExecute", "None"}, []string{"", "NoExecute"}
	other := []string{"example.com/other"}
	noEnd := tolerating(other, []string{""}, new(int64(1))) // the seconds count with NoExecute only
	return map[string]mistake{
		"DRA-TOL-001": {tolerations: tolerating([]string{""}, anyEffect, nil)},
		"DRA-TOL-002": {tolerations: tolerating([]string{"", "gpu.nvidia.com/gpu-lost"}, anyEffect, nil)},
		"DRA-TOL-003": {tolerations: tolerating([]string{"", "example.com/other", "gpu"}, anyEffect, nil), parameters: map[string]any{"allowed": []any{"gpu.example.com/*", ""}}},
		"DRA-TOL-004": {tolerations: append(tolerating([]string{"", "example.com/other"}, evicting, nil), noEnd...)},
		"DRA-TOL-005": {tolerations: append(tolerating([]string{"", "example.com/other"}, evicting, new(int64(601))), noEnd...), parameters: map[string]any{"maxSeconds": 600}},
		"DRA-TOL-006": {tolerations: slices.Concat(tolerating(other, []string{"NoSchedule"}, new(int64(60))), noEnd, tolerating(other, evicting, new(int64(-1))), tolerating(other, []string{"None"}, nil),
			[][]resourceapi.DeviceToleration{{{Key: "a", Operator: "Exists"}, {Key: "b", Operator: "Exists"}, {Key: "a", Operator: "Exists"}}})},
		"DRA-TOL-007":   {tolerations: [][]resourceapi.DeviceToleration{{{Key: "a"}, {Key: "b"}, {Key: "c"}}}, parameters: map[string]any{"max": 2}},
		"DRA-TOL-008":   {tolerations: tolerating(other, anyEffect, nil)},
		"DRA-CLAIM-001": {exactly: func(r *resourceapi.ExactDeviceRequest) { r.AdminAccess = new(true) }}, // alternatives have none
		"DRA-CLAIM-002": {exactly: func(r *resourceapi.ExactDeviceRequest) { r.AllocationMode = "All" },
			alternative: func(r *resourceapi.DeviceSubRequest) { r.AllocationMode = "All" }},
		"DRA-CLAIM-003": {exactly: func(r *resourceapi.ExactDeviceRequest) { r.Count = 3 }, alternative: func(r *resourceapi.DeviceSubRequest) { r.Count = 3 },
			parameters: map[string]any{"classes": map[string]any{"gpu.example.com": 2}}},
		"DRA-CLAIM-004": {exactly: func(r *resourceapi.ExactDeviceRequest) { r.DeviceClassName = "secret" }, alternative: func(r *resourceapi.DeviceSubRequest) { r.DeviceClassName = "secret" },
			parameters: map[string]any{"allowed": []any{"gpu.example.com"}}},
		"DRA-CLAIM-005": {path: "devices.config[0].opaque.driver", claim: func(s *resourceapi.ResourceClaimSpec) {
			s.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.exmaple.com"}}}}
		}},
		"DRA-CLAIM-006": {alternative: func(*resourceapi.DeviceSubRequest) {}, parameters: map[string]any{"namespaceLabels": map[string]any{"queued": "yes"}}},
		"DRA-CLAIM-007": {exactly: func(r *resourceapi.ExactDeviceRequest) { r.Selectors[0].CEL.Expression = " true" },
			alternative: func(r *resourceapi.DeviceSubRequest) { r.Selectors[0].CEL.Expression = " true" }},
	}
}

func selecting() []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
}

// places writes a mistake wherever a claim can have it; the keys are the paths.
func (m mistake) places() map[string][]resourceapi.ResourceClaimSpec {
	all := map[string][]resourceapi.ResourceClaimSpec{}
	add := func(path string, request resourceapi.DeviceRequest) {
		spec := asking().Spec
		spec.Devices.Requests = []resourceapi.DeviceRequest{request}
		all[path] = append(all[path], spec)
	}
	exactly := func(change func(*resourceapi.ExactDeviceRequest)) {
		r := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", Count: 1, Selectors: selecting()}
		change(r)
		add("devices.requests[gpu].exactly", resourceapi.DeviceRequest{Name: "gpu", Exactly: r})
	}
	alternative := func(change func(*resourceapi.DeviceSubRequest)) {
		for at, path := range []string{"devices.requests[gpu].firstAvailable[large]", "devices.requests[gpu].firstAvailable[small]"} {
			subs := []resourceapi.DeviceSubRequest{{Name: "large"}, {Name: "small"}}
			for i := range subs {
				subs[i].DeviceClassName, subs[i].Count, subs[i].Selectors = "gpu.example.com", 1, selecting()
			}
			change(&subs[at])
			add(path, resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: subs})
		}
	}
	for _, list := range m.tolerations {
		exactly(func(r *resourceapi.ExactDeviceRequest) { r.Tolerations = list })
		alternative(func(r *resourceapi.DeviceSubRequest) { r.Tolerations = list })
	}
	if m.exactly != nil {
		exactly(m.exactly)
	}
	if m.alternative != nil {
		alternative(m.alternative)
	}
	if m.claim != nil {
		spec := asking().Spec
		m.claim(&spec)
		all[m.path] = []resourceapi.ResourceClaimSpec{spec}
	}
	return all
}

// TestVariants: no way of writing a mistake goes round its policy: whatever operator, value
// and effect a toleration has, in a request or in any alternative, in a claim or a template,
// on creation and on an update. What is stored already is at most warned about.
func TestVariants(t *testing.T) {
	all := mistakes()
	for _, p := range compiled(t, policy.Library()).Policies() {
		if !slices.Contains(p.Kinds, "ResourceClaim") {
			continue
		}
		m, known := all[p.Code]
		if !known {
			t.Errorf("%s: add the mistake that it objects to", p.Code)
			continue
		}
		t.Run(p.Code, func(t *testing.T) {
			settings := only(t, p.Code)
			settings.Modes[p.Code] = policy.Deny
			settings.Parameters = map[string]map[string]any{p.Code: m.parameters}
			e := engine(t, settings, policy.Library())
			for path, specs := range m.places() {
				for _, spec := range specs {
					claim, template := asking(), &resourceapi.ResourceClaimTemplate{}
					claim.Spec, template.Spec.Spec = spec, spec
					inClaim, inTemplate := writing(claim), writing(claim)
					inTemplate.Kind, inTemplate.Object = "ResourceClaimTemplate", template
					update, stored := inClaim, inClaim
					update.Old, stored.Old = asking(), claim
					variant(t, e, p.Code, inClaim, "spec."+path, policy.Deny)
					variant(t, e, p.Code, inTemplate, "spec.spec."+path, policy.Deny)
					variant(t, e, p.Code, update, "spec."+path, policy.Deny)
					variant(t, e, p.Code, stored, "spec."+path, policy.Warn)
				}
			}
		})
	}
}

func variant(t *testing.T, e *policy.Engine, code string, req policy.Request, path string, mode policy.Mode) {
	t.Helper()
	req.ClusterView, req.ClusterData = classes(), unknownTaints{"queued": "yes"}
	d := decide(t, e, req)
	if !slices.ContainsFunc(d.Violations, func(v policy.Violation) bool {
		return v.Code == code && v.Mode == mode && slices.ContainsFunc(v.Paths, func(p string) bool { return strings.HasPrefix(p, path) })
	}) {
		t.Errorf("%s %+v: said %+v, want %s of %s at %s", req.Kind, req.Object, d.Violations, mode, code, path)
	}
}

// unknownTaints are facts of a cluster that has no taints.
type unknownTaints map[string]string

func (f unknownTaints) NamespaceLabels(string) map[string]string { return f }
func (unknownTaints) TaintKey(string) (known, sure bool)         { return false, true }
