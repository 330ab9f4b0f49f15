package faults

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestOf(t *testing.T) {
	for of, want := range map[string]int{
		"v1.35.9": 0, "v1.36.0": 1, "v1.36.2": 1, "v1.36.2-gke.1234": 1, "v1.36.1+k3s1": 1, "1.36.2": 1,
		"v1.36.3": 0, "v1.36.3-eks-1": 0, "v1.36.10": 0, "v1.37.0": 0, "": 0, "unknown": 0,
	} {
		if got := Of(of, RuleExists); len(got) != want {
			t.Errorf("%q: %v", of, got)
		}
	}
	if got := Of("v1.36.1", "something else"); got != nil {
		t.Errorf("%v", got)
	}
}

// TestKnown: every fault is complete, and its versions are a range.
func TestKnown(t *testing.T) {
	for _, f := range Known() {
		if !version.MustParseGeneric(f.From).LessThan(version.MustParseGeneric(f.Fixed)) {
			t.Errorf("%s: from %s to %s", f.Reference, f.From, f.Fixed)
		}
		for _, part := range []string{f.Reference, f.Component, f.Effect, f.Remedy} {
			if part == "" || !strings.Contains(f.String(), part) {
				t.Errorf("%s: %q is not in %q", f.Reference, part, f)
			}
		}
	}
}
