package rulebook_test

import (
	"slices"
	"testing"

	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestGaps: all are closed by something that exists, and every gap rule
// closes one. What the API server leaves out of our own kind is not a gap of its own.
func TestGaps(t *testing.T) {
	gaps := rulebook.Gaps()
	if len(gaps) != 34 {
		t.Errorf("%d gaps, want 34", len(gaps))
	}
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	var closing []string
	for i, gap := range gaps {
		if gap.What == "" || len(gap.IDs) == 0 && gap.How == "" {
			t.Errorf("gap %d: %+v: nothing is done about it", i+1, gap)
		}
		for _, id := range gap.IDs {
			if _, err := book.Find(id); err != nil {
				t.Errorf("gap %d: %v", i+1, err)
			}
		}
		closing = append(closing, gap.IDs...)
	}
	for _, rule := range validate.Rules() {
		own := slices.Equal(rule.Kinds, []string{"ResourceSlicePatch"}) || slices.Equal(rule.Kinds, []string{"DeviceDrain"}) || slices.Equal(rule.Kinds, []string{"DeviceReaction"}) || slices.Equal(rule.Kinds, []string{"DeviceRoll"})
		if rule.Category == validate.Gap && !own && !slices.Contains(closing, rule.ID) {
			t.Errorf("the rule %s closes no gap: add it to Gaps", rule.ID)
		}
	}
}
