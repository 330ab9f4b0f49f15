package review_test

import (
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestAll: a rule whose selector has the field "all" (kubernetes#142287), which the types of
// 1.37 do not have, selects every device, whatever else the selector names.
func TestAll(t *testing.T) {
	const everything, nothing = "error taint-rule-everything", ""
	for selector, want := range map[string]string{
		`{}`:                everything,
		`{"all":true}`:      everything,
		`{"\u0061ll":true}`: everything,
		`{"all":true,"driver":"gpu.example.com"}`:   everything,
		`{"driver":"gpu.example.com","all":{}}`:     everything,
		`{"driver":"gpu.example.com","all":false}`:  nothing,
		`{"driver":"gpu.example.com","all":null}`:   nothing,
		`{"driver":"gpu.example.com","All":true}`:   nothing,
		`{"driver":"gpu.example.com","pool":"all"}`: nothing,
		`null`: nothing,
	} {
		object := `{"metadata":{"name":"a"},"spec":{"deviceSelector":` + selector + `,"taint":{"key":"example.com/a","effect":"NoExecute"}}}`
		site := v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Disabled: true}}
		got := found(t, withPolicies(t, site), "DeviceTaintRule", object)
		slices.Sort(got)
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: got %q, want %q", selector, got, want)
		}
	}
}

// TestGuardCountsAll: the guard counts a rule for "all" as a rule for every device, and a rule
// that comes to select all as one that affects more.
func TestGuardCountsAll(t *testing.T) {
	const all = `{"metadata":{"name":"a"},"spec":{"deviceSelector":{"all":true,"driver":"d"},"taint":{"key":"example.com/a","effect":"NoExecute"}}}`
	one := taintRule(t, resourceapi.DeviceTaintEffectNoExecute, "d", "")
	for name, tt := range map[string]struct {
		old  []byte
		want bool
	}{"created": {nil, true}, "widened": {one, true}, "the same": {[]byte(all), false}} {
		answer, err := guarding(t, v1alpha1.StewardConfiguration{}, counted{}).Guard(guardRequest("v1", []byte(all), tt.old))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(answer.Findings, func(f review.Finding) bool { return f.Rule == "DRA-RULE-001" })
		if got != tt.want {
			t.Errorf("%s: %+v, want a finding of DRA-RULE-001: %t", name, answer.Findings, tt.want)
		}
	}
}
