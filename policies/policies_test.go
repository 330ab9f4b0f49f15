// Package policies_test runs the tests of the library.
package policies_test

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestLibrary: the library compiles, its tests pass, and they reach every line.
func TestLibrary(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	report, err := set.Test(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	for _, place := range report.Uncovered {
		t.Errorf("%s: no test reaches this place", place)
	}
	for _, p := range set.Policies() {
		passing, failing := 0, 0
		for _, test := range report.Tests {
			if name, ok := strings.CutPrefix(test.Name, p.Package+"_test.test_"); ok {
				if strings.Contains(name, "pass") || strings.Contains(name, "allow") {
					passing++
				} else {
					failing++
				}
			}
		}
		if passing == 0 || failing == 0 {
			t.Errorf("%s: %d tests of what passes (test_…_passes, test_…_allows) and %d of what is denied; at least one of each is needed", p.File, passing, failing)
		}
	}
}
