package review_test

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

const taintedSlice = `{"metadata":{"name":"a"},"spec":{"driver":"gpu.example.com","nodeName":"node-1","pool":{"name":"node-1","generation":1,"resourceSliceCount":1},
	"devices":[{"name":"gpu-0","taints":[{"key":"example.com/a","effect":"NoSchedule"}]}]}}`

// TestDroppedFieldsInCluster: the mutating webhook warns about what the API server is
// about to drop, if it knows the server; the validating one could not see it.
func TestDroppedFieldsInCluster(t *testing.T) {
	for name, test := range map[string]struct {
		server   v1alpha1.Server
		severity v1alpha1.Severity
		old      string
		want     int
	}{
		"off by default":       {server: v1alpha1.Server{KubernetesVersion: "1.35"}, want: 1},
		"on by default":        {server: v1alpha1.Server{KubernetesVersion: "1.36"}},
		"switched off":         {server: v1alpha1.Server{KubernetesVersion: "v1.37.0", FeatureGates: map[string]bool{"DRADeviceTaints": false}}, want: 1},
		"switched on":          {server: v1alpha1.Server{KubernetesVersion: "1.35", FeatureGates: map[string]bool{"DRADeviceTaints": true}}},
		"unknown server":       {server: v1alpha1.Server{FeatureGates: map[string]bool{"DRADeviceTaints": false}}},
		"used before":          {server: v1alpha1.Server{KubernetesVersion: "1.35"}, old: taintedSlice},
		"off for the site":     {server: v1alpha1.Server{KubernetesVersion: "1.35"}, severity: "off"},
		"never denies a slice": {server: v1alpha1.Server{KubernetesVersion: "1.35"}, severity: "error", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			site := v1alpha1.StewardConfiguration{Server: test.server}
			if test.severity != "" {
				site.Rules = map[string]v1alpha1.Rule{"field-dropped": {Severity: test.severity}}
			}
			reviewer, err := review.New(site)
			if err != nil {
				t.Fatal(err)
			}
			reviewer.InCluster = true
			req := request("v1", "ResourceSlice", "", taintedSlice, test.old)
			answer, err := reviewer.Mutate(req)
			if err != nil || len(answer.Findings) != test.want || answer.Denied() {
				t.Fatalf("findings %v, %v, want %d warnings", answer.Findings, err, test.want)
			}
			if len(answer.Changes) != 1 && test.old == "" {
				t.Errorf("changes %v, want the time of the taint as ever", answer.Changes)
			}
			if test.want > 0 && (answer.Findings[0].Rule != "field-dropped" || !strings.Contains(answer.Findings[0].Path, "spec.devices[gpu-0].taints")) {
				t.Errorf("%+v", answer.Findings)
			}
			if answer, err = reviewer.Validate(req); err != nil || len(answer.Findings) > 0 {
				t.Errorf("validating: %v, %v", answer.Findings, err)
			}
		})
	}
}

// TestCrashInCluster: a step on which API servers before 1.37 crash is refused before
// they look, unless they drop it.
func TestCrashInCluster(t *testing.T) {
	for step, bad := range map[string]bool{"0": true, "0m": true, "18446744073709551616": true, "1Gi": false} {
		object := `{"metadata":{"name":"a"},"spec":{"driver":"gpu.example.com","nodeName":"node-1","pool":{"name":"node-1","generation":1,"resourceSliceCount":1},
			"devices":[{"name":"gpu-0","allowMultipleAllocations":true,"capacity":{"memory":{"value":"8Gi","requestPolicy":{"default":"1Gi","validRange":{"min":"1Gi","step":"` + step + `"}}}}}]}}`
		for version, drops := range map[string]bool{"": false, "1.35": true, "1.36": false, "1.37": false} {
			reviewer, err := review.New(v1alpha1.StewardConfiguration{Server: v1alpha1.Server{KubernetesVersion: version}})
			if err != nil {
				t.Fatal(err)
			}
			reviewer.InCluster = true
			answer, err := reviewer.Mutate(request("v1", "ResourceSlice", "", object, ""))
			if err != nil || answer.Denied() != (bad && !drops) {
				t.Errorf("step %s, version %q: %v, %v", step, version, answer.Findings, err)
			}
			if answer.Denied() && (answer.Findings[0].Rule != "capacity-step" || !strings.HasSuffix(answer.Findings[0].Path, "requestPolicy.validRange.step")) {
				t.Errorf("step %s: %v", step, answer.Findings)
			}
		}
	}
}
