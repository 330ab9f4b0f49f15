package webhook

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestWarnings: a line for each rule with the first places in natural order, at most five
// lines, and the rest counted.
func TestWarnings(t *testing.T) {
	warning := func(rule, path, message string) review.Finding {
		return review.Finding{Rule: rule, Severity: validate.Warning, Path: path, Message: message}
	}
	var keys []review.Finding
	for _, i := range []int{0, 1, 10, 11, 12, 2} {
		keys = append(keys, warning("key", fmt.Sprintf("spec[%d].key", i), "is unknown"))
	}
	var many []review.Finding
	for i := range 7 {
		many = append(many, warning(fmt.Sprint("rule-", i), "spec", "is odd"))
	}
	for name, tt := range map[string]struct {
		findings []review.Finding
		effect   string
		want     []string
	}{
		"nothing":      {nil, "", nil},
		"an error":     {[]review.Finding{{Rule: "r", Severity: validate.Error, Path: "spec", Message: "is wrong"}}, "", nil},
		"the same":     {keys, "", []string{"spec[0].key, spec[1].key and 4 more: is unknown (dra-steward rule key)"}},
		"without path": {[]review.Finding{warning("r", "", "is odd")}, "changes 1 device", []string{"is odd (dra-steward rule r)", "changes 1 device (dra-steward rule patch-effect)"}},
		"other messages": {[]review.Finding{warning("r", "spec[2]", "has b"), warning("r", "spec[1]", "has a"), warning("r", "spec[3]", "has c")}, "",
			[]string{"spec[1]: has a; spec[2]: has b; and 1 more (dra-steward rule r)"}},
		"left out by the policy": {[]review.Finding{warning("r", "", "and 6 more"), warning("r", "spec[10]", "has b"), warning("r", "spec[1]", "has a"), warning("r", "spec[2]", "has c")}, "",
			[]string{"spec[1]: has a; spec[2]: has c; and 7 more (dra-steward rule r)"}},
		"too many": {many, "", []string{
			"spec: is odd (dra-steward rule rule-0)", "spec: is odd (dra-steward rule rule-1)", "spec: is odd (dra-steward rule rule-2)",
			"spec: is odd (dra-steward rule rule-3)", "spec: is odd (dra-steward rule rule-4)", "and 2 more: \"dra-steward lint\" lists all (dra-steward rules: rule-5, rule-6)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, warnings(review.Answer{Findings: tt.findings, Effect: tt.effect, EffectRule: "patch-effect"})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
